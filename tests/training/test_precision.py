"""bfloat16 is used only where a child process has lived through it."""

import signal

import pytest
import torch

from regard.training import precision

CPU = torch.device("cpu")


def test_a_processor_computes_in_float32_unless_asked() -> None:
    assert precision.choose("auto", CPU, pytest.fail) == torch.float32
    assert precision.choose("float32", CPU, pytest.fail) == torch.float32


def test_a_child_that_dies_is_told_and_float32_used(monkeypatch: pytest.MonkeyPatch) -> None:
    dies = f"import os; os.kill(os.getpid(), {int(signal.SIGILL)})"
    found = precision.trouble_with_bfloat16(dies)
    assert found == f"bfloat16 ends the process here with signal {int(signal.SIGILL)}"
    monkeypatch.setattr(precision, "trouble_with_bfloat16", lambda: found)
    told: list[str] = []
    assert precision.choose("bfloat16", CPU, told.append) == torch.float32
    assert told == [f"{found}; float32 is used"]


def test_wrong_results_count_as_trouble() -> None:
    assert precision.trouble_with_bfloat16("assert False") == "bfloat16 gives wrong results here"
    assert precision.trouble_with_bfloat16("") is None


def test_where_it_lives_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "trouble_with_bfloat16", lambda: None)
    assert precision.choose("bfloat16", CPU, pytest.fail) == torch.bfloat16
