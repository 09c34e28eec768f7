"""A row of a product has the same bits among few and among many; on Intel's processors alone, too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard import arithmetic

ALONE_AND_AMONG_OTHERS = """
import regard
regard.enable_reproducible_mkl()
import torch
from regard.arithmetic import is_intel
from torch.nn.functional import linear
torch.set_num_threads(1)
for inside in (16, 64, 128, 512):
    weight, bias, rows = torch.randn(300, inside), torch.randn(300), torch.randn(40, inside)
    among = linear(rows, weight, bias)
    for some in (*((1, 2, 3) if is_intel() else ()), 4, 5, 7, 16, 33):  # the search never brings fewer than four
        assert torch.equal(linear(rows[:some], weight, bias), among[:some]), (inside, some)
print("equal")
"""


def test_a_row_has_the_same_bits_alone_and_among_others() -> None:
    environment = {name: value for name, value in os.environ.items() if name != arithmetic.SETTING}
    command = [sys.executable, "-c", ALONE_AND_AMONG_OTHERS]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (told.stdout, told.stderr) == ("equal\n", "")


@pytest.mark.parametrize(("chosen", "kept"), [(None, "AUTO,STRICT"), ("AVX2", "AVX2")])
def test_the_mode_is_asked_for_unless_chosen(
    chosen: str | None, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arithmetic, "is_intel", lambda: True)
    monkeypatch.delenv(arithmetic.SETTING, raising=False)
    if chosen:
        monkeypatch.setenv(arithmetic.SETTING, chosen)
    arithmetic.enable_reproducible_mkl()
    assert os.environ[arithmetic.SETTING] == kept


def test_other_makers_processors_are_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\n", "utf-8")
    assert not arithmetic.is_intel(told)
    told.write_text("processor\t: 0\nvendor_id\t: GenuineIntel\n", "utf-8")
    assert arithmetic.is_intel(told)
    monkeypatch.setattr(arithmetic, "is_intel", lambda: False)
    monkeypatch.delenv(arithmetic.SETTING, raising=False)
    arithmetic.enable_reproducible_mkl()
    assert arithmetic.SETTING not in os.environ
