"""The allocator while training; tests/test_process_state.py checks that it is restored."""

import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

LARGE_PAGES = """
import re, torch
from pathlib import Path
from regard.engine.allocator import tuned_allocator
with tuned_allocator():
    block = torch.ones(50_000_000)
    rollup = Path("/proc/self/smaps_rollup").read_text()
print(re.search(r"AnonHugePages: *(\\d+)", rollup).group(1))
"""


@pytest.mark.skipif(
    not PAGES.exists() or "[never]" in PAGES.read_text("utf-8"), reason="this system has no large pages"
)
def test_large_blocks_use_large_pages() -> None:
    done = subprocess.run([sys.executable, "-c", LARGE_PAGES], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 150_000  # of 200,000 kB
