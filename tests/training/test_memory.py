"""What a training does to its process, and that it leaves it as it was."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.training.memory import OBJECTS, settled

PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

LARGE_PAGES = """
import re, torch
from pathlib import Path
from regard.training.memory import keep_blocks
keep_blocks()
block = torch.ones(50_000_000)
told = Path("/proc/self/smaps_rollup").read_text()
print(re.search(r"AnonHugePages: *(\\d+)", told).group(1))
"""


@pytest.mark.skipif(
    not PAGES.exists() or "[never]" in PAGES.read_text("utf-8"), reason="this system has no large pages"
)
def test_large_blocks_lie_in_large_pages() -> None:
    done = subprocess.run([sys.executable, "-c", LARGE_PAGES], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 150_000  # of 200,000 kB


def test_a_training_leaves_the_process_as_it_was() -> None:
    tiny, before = torch.tensor(1e-40), (gc.get_threshold(), gc.get_freeze_count())
    with settled():
        assert gc.get_threshold()[0] == OBJECTS
        assert tiny * 1.0 == 0
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
    assert tiny * 1.0 > 0
