"""Image generation through the real command: train, paint, and a prompt with unknown words."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from support.small_diffusion import SMALL, write_toys

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_train_and_paint_a_grid(regard: Command, tmp_path: Path) -> None:
    write_toys(tmp_path, train=64, test=8)
    done = regard("train", "paint", "data.path=.", *SMALL, "train.steps=3", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout
    assert "labels: 0, 1" in done.stderr
    done = regard(
        "paint", "run", "a zero", "eine Eins", "-o", "grid.png", "--steps", "2", "-n", "3", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("grid.png: 6 pictures in ")
    assert (tmp_path / "grid.png").read_bytes().startswith(b"\x89PNG")
    done = regard("paint", "run", "a green zero", "-o", "other.png", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("regard: the prompt 'a green zero' has unknown words: 'green'; allowed: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "other.png").exists()
