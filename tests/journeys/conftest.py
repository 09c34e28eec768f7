"""Fixtures that run the real command, and a small translation run trained with it."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.console import run_command
from support.small_translation import write_numbers

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def regard(programs: Path) -> Command:
    """Runs the command in its own process."""

    def call(*arguments: str, cwd: Path, **options) -> subprocess.CompletedProcess[str]:
        command = [str(programs / "regard"), *arguments]
        environment = {**os.environ, "COLUMNS": "120", "REGARD_CACHE": str(cwd / "cache")}
        settings = {
            "env": environment,
            "capture_output": True,
            "text": True,
            "timeout": 240,
            "encoding": "utf-8",
            **options,
        }
        return subprocess.run(command, cwd=cwd, **settings)

    return call


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command in this process, which saves the imports of a new one."""

    def call(*arguments: str, cwd: Path, input: str = "") -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(cwd)
        monkeypatch.setenv("REGARD_CACHE", str(cwd / "cache"))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(input.encode())))
        return subprocess.CompletedProcess(arguments, *run_command(arguments, monkeypatch, capsys))

    return call


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory, regard: Command) -> Path:
    """A folder with a corpus of number words, `run` trained on it, and its own cache."""
    folder = tmp_path_factory.mktemp("story")
    write_numbers(folder, 1500)
    process = regard(
        "train", "translation", "data.source=n.de", "data.target=n.en", "tokenizer.kind=words", "tokenizer.min_count=1",
        "model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=32", "model.heads=2", "model.d_ff=64",
        "model.max_length=24", "train.steps=400", "train.lr=0.01", "train.warmup=40", "train.batch_tokens=512",
        "train.validate_every=200", "--out", "run", cwd=folder,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    (folder / "train.out").write_text(process.stdout)
    (folder / "train.err").write_text(process.stderr)
    return folder
