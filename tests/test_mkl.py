"""Rows of a matrix product are bit-identical for any number of rows (on Intel; elsewhere from four rows)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard import mkl

COMPARE_ROWS = """
import regard
regard.enable_reproducible_mkl()
import torch
from regard.mkl import is_intel
from torch.nn.functional import linear
torch.set_num_threads(1)
for size in (16, 64, 128, 512):
    weight, bias, rows = torch.randn(300, size), torch.randn(300), torch.randn(40, size)
    together = linear(rows, weight, bias)
    for count in (*((1, 2, 3) if is_intel() else ()), 4, 5, 7, 16, 33):  # the search pads to four
        assert torch.equal(linear(rows[:count], weight, bias), together[:count]), (size, count)
print("equal")
"""


def test_rows_are_bit_identical_alone_and_together() -> None:
    environment = {name: value for name, value in os.environ.items() if name != mkl.VARIABLE}
    command = [sys.executable, "-c", COMPARE_ROWS]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (process.stdout, process.stderr) == ("equal\n", "")


@pytest.mark.parametrize(("chosen", "kept"), [(None, "AUTO,STRICT"), ("AVX2", "AVX2")])
def test_mode_is_set_unless_chosen(chosen: str | None, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mkl, "is_intel", lambda: True)
    monkeypatch.delenv(mkl.VARIABLE, raising=False)
    if chosen:
        monkeypatch.setenv(mkl.VARIABLE, chosen)
    mkl.enable_reproducible_mkl()
    assert os.environ[mkl.VARIABLE] == kept


def test_other_processors_are_unchanged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\n", "utf-8")
    assert not mkl.is_intel(cpuinfo)
    cpuinfo.write_text("processor\t: 0\nvendor_id\t: GenuineIntel\n", "utf-8")
    assert mkl.is_intel(cpuinfo)
    monkeypatch.setattr(mkl, "is_intel", lambda: False)
    monkeypatch.delenv(mkl.VARIABLE, raising=False)
    mkl.enable_reproducible_mkl()
    assert mkl.VARIABLE not in os.environ
