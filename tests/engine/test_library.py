"""The kernels are compiled once, tried in a child, and done without where that fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.engine.library import compiled, find_library, key


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REGARD_NATIVE", str(tmp_path / "native"))


def ask() -> tuple[Path | None, str]:
    return find_library.__wrapped__()


def test_compiled_once_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    built, sentence = ask()
    if built is None:
        pytest.skip(sentence)
    assert "compiled by" in sentence
    assert [path.suffix for path in built.parent.iterdir()] == [".so"]
    monkeypatch.setattr("regard.engine.library.compiled", lambda *_: pytest.fail("compiled twice"))
    assert ask()[0] == built


def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert ask() == (None, "switched off by REGARD_NATIVE=0")


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    built, sentence = ask()
    assert built is None
    assert "no C compiler found" in sentence


def test_a_compiler_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "false")
    built, sentence = ask()
    assert built is None
    assert "could not be compiled" in sentence
    assert not list((tmp_path / "native").iterdir())


def test_instructions_the_machine_does_not_run_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "trap.c"
    source.write_text("int works(void) { __builtin_trap(); }\n")
    monkeypatch.setattr("regard.engine.library.SOURCE", source)
    built = tmp_path / "native" / "trap.so"
    why = compiled("cc", "", built)
    assert "what was built ended with -" in why
    assert not built.exists()


def test_the_name_changes_with_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    here = key("cc", "")
    monkeypatch.setattr("regard.engine.library.processor", lambda: "flags: another")
    assert key("cc", "") != here


def test_a_training_without_kernels_works(tmp_path: Path) -> None:
    command = "from regard.engine import kernels; assert kernels() is None; from regard.layers import Dropout; import torch; assert (Dropout(0.5)(torch.ones(99)) == 0).any()"
    subprocess.run([sys.executable, "-c", command], check=True, env={**os.environ, "REGARD_NATIVE": "0"})
