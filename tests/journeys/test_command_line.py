"""The command line in a process of its own: training, JSON output, errors, full disk."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_train_kernel_from_the_command_line(regard: Command, tmp_path: Path) -> None:
    process = regard("train", "kernel", "train.steps=50", "--out", "mine", cwd=tmp_path)
    assert (process.returncode, process.stderr) == (0, "")
    assert "learned" in process.stdout
    assert "mine/curves.png" in process.stdout
    assert (tmp_path / "mine" / "weights.svg").exists()
    assert "steps = 50" in (tmp_path / "mine" / "recipe.toml").read_text()


def test_stdout_has_only_the_json(regard: Command, tmp_path: Path) -> None:
    process = regard("train", "kernel", "train.steps=5", "--json", cwd=tmp_path)
    assert json.loads(process.stdout)["run"] == "runs/kernel"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "kernle"], "regard: there is no recipe 'kernle'; did you mean 'kernel'?"),
        (["train", "kernel", "train.steps=many"], 'regard: train.steps: "many" is not a whole number, at least 1'),
        (["train", "kernel", "data.path=nowhere.csv"], "regard: data.path: nowhere.csv cannot be read: No such file"),
        (["train", "kernel", "data.path=bad.csv"], "regard: bad.csv, line 3: expected two numbers, not '3 4 5'"),
        (["train", "kernel", "data.path=one.csv"], "regard: one.csv holds 1 points; leaving one out needs at least 2"),
        (["train", "kernel", "data.path=latin.csv"], "regard: data.path: latin.csv is not UTF-8 text"),
        (["train", "kernel", "--out", "bad.csv/run"], "regard: the run folder bad.csv/run cannot be made: Not a directory"),
    ],
)  # fmt: skip
def test_user_errors_are_one_line_with_exit_code_2(
    here: Command, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "bad.csv").write_text("x y\n1 2\n3 4 5\n")
    (tmp_path / "one.csv").write_text("1 2\n")
    (tmp_path / "latin.csv").write_bytes(b"1 2\n\xff\xfe 3\n")
    process = here(*arguments, cwd=tmp_path)
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr.startswith(message)
    assert process.stderr.count("\n") == 1


def test_a_full_disk_is_reported_in_one_line(regard: Command, tmp_path: Path) -> None:
    """On a real file system of 16 kB."""
    folder = tmp_path / "run"
    folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here (not root)")
    try:
        process = regard("train", "kernel", "--out", "run", cwd=tmp_path)
        assert process.returncode == 1
        assert process.stderr == "regard: writing failed: no space left on device\n"
        assert not (folder / "config.json").exists()
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_version_and_help(regard: Command, tmp_path: Path) -> None:
    import regard as package

    assert regard("--version", cwd=tmp_path).stdout == f"regard {package.__version__}\n"
    help_text = regard("train", "--help", cwd=tmp_path).stdout
    assert "Examples" in help_text
