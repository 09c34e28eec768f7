"""Training runs that are killed, interrupted or started twice: resuming gives the same files."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.quick_command import QuickProcess
from support.small_translation import write_numbers
from support.without_figures import WITHOUT_FIGURES

Begin = Callable[..., QuickProcess]
KILL_AT_FSYNC = """
import os, signal
remaining, fsync = {count}, os.fsync
def kill_at_fsync(descriptor):
    global remaining
    path = os.readlink(f"/proc/self/fd/{{descriptor}}")
    remaining -= "/{out}/" in path and ".part" in path
    if remaining == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(descriptor)
os.fsync = kill_at_fsync
"""
"""Code that kills its process at the n-th fsync of a file in the run folder."""

RECIPE = [
    "train", "translation", "data.source=n.de", "data.target=n.en", "tokenizer.kind=bpe", "tokenizer.vocab_size=300",
    "tokenizer.dropout=0.1", "model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=32", "model.heads=2",
    "model.d_ff=64", "model.dropout=0.1", "train.batch_tokens=256", "train.grad_accum=2", "train.r_drop=0.5",
    "train.steps=40", "train.validate_every=10", "train.validate_sentences=10", "train.checkpoint_every=1",
    "train.log_every=4", "train.patience=50",
]  # fmt: skip
FILES = ("model.safetensors", "tokenizer.json", "recipe.toml", "config.json")


@pytest.fixture(scope="module")
def begin(programs: Path) -> Begin:
    """Starts a training run in its own process; with --resume if its folder exists, as a supervisor would."""

    def call(folder: Path, out: str, *more: str, first: str = "") -> QuickProcess:
        environment = {**os.environ, "REGARD_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        resume = ["--resume"] if (folder / out).is_dir() else []
        return QuickProcess(
            [str(programs / "regard"), *RECIPE, *more, *resume, "--out", out], cwd=folder, env=environment,
            first=WITHOUT_FIGURES + first, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, begin: Begin) -> Path:
    """A folder with a corpus, and `whole`, a run that was not interrupted."""
    folder = tmp_path_factory.mktemp("killed")
    write_numbers(folder, 600)
    done = begin(folder, "whole")
    stderr = done.communicate(timeout=200)[1]
    assert done.returncode == 0, stderr
    return folder


def assert_same_run(first: Path, second: Path) -> None:
    for name in FILES:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    assert rows(first) == rows(second)
    assert unfinished(second) == []


def rows(run: Path) -> list[tuple]:
    """The metrics without times."""
    metrics = []
    for line in (run / "metrics.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        metrics.append(
            tuple((key, str(row[key])) for key in sorted(row) if key not in ("minutes", "tokens_per_second"))
        )
    return metrics


def killed_and_resumed(begin: Begin, folder: Path, out: str, kills: int, seed: int) -> int:
    """Kills a run with SIGKILL, alternately at a random moment and inside a write; returns the number of the latter."""
    sampling = random.Random(seed)
    inside = 0
    for number in range(kills):
        in_a_write = number % 2 == 1
        if in_a_write:
            count = sampling.randint(1, 8)
            process = begin(folder, out, first=KILL_AT_FSYNC.format(count=count, out=out))
        else:
            process = begin(folder, out)
            wait_until_training(folder / out, process)
            time.sleep(sampling.uniform(0.0, 0.1))
            process.send_signal(signal.SIGKILL)
        stderr = process.communicate(timeout=200)[1]
        assert process.returncode == -signal.SIGKILL, stderr
        assert not in_a_write or unfinished(folder / out)
        inside += in_a_write
    process = begin(folder, out)
    stderr = process.communicate(timeout=200)[1]
    assert process.returncode == 0, stderr
    return inside


def unfinished(run: Path) -> list[str]:
    """Names of files that are being written."""
    names: list[str] = []
    for folder in (run, run / "checkpoints"):
        with contextlib.suppress(OSError):
            names += [name for name in os.listdir(folder) if name.endswith((".part", ".old"))]
    return names


def wait_until_training(run: Path, process: QuickProcess) -> None:
    """Waits until the process has written a file."""
    before = newest(run)
    while process.poll() is None and newest(run) <= before:
        time.sleep(0.01)


def newest(run: Path) -> float:
    try:
        return max((path.stat().st_mtime for path in run.rglob("*")), default=0.0)
    except FileNotFoundError:  # renamed meanwhile
        return 0.0


def test_a_run_killed_three_times_is_bit_identical(folder: Path, begin: Begin) -> None:
    assert killed_and_resumed(begin, folder, "three", kills=3, seed=1) == 1
    assert_same_run(folder / "whole", folder / "three")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_killed_25_times_is_bit_identical(folder: Path, begin: Begin) -> None:
    inside = killed_and_resumed(begin, folder, "many", kills=25, seed=2)
    assert_same_run(folder / "whole", folder / "many")
    print(f"\n25 kills, {inside} of them inside a write: all files bit-identical")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_saves_a_checkpoint(folder: Path, begin: Begin, number: signal.Signals) -> None:
    out = f"signal-{number.name}"
    process = begin(folder, out, "train.checkpoint_every=1000")  # only the signal triggers a checkpoint
    while process.poll() is None and not (folder / out / "metrics.jsonl").exists():
        time.sleep(0.01)
    process.send_signal(number)
    stderr = process.communicate(timeout=200)[1]
    assert process.returncode == 128 + number, stderr
    assert "the training state is saved; continue with --resume" in stderr
    assert "Traceback" not in stderr
    assert len(list((folder / out / "checkpoints").iterdir())) == 1
    done = begin(folder, out, "train.checkpoint_every=1000")
    stderr = done.communicate(timeout=200)[1]
    assert done.returncode == 0, stderr
    assert (folder / out / "model.safetensors").read_bytes() == (
        folder / "whole" / "model.safetensors"
    ).read_bytes()
    assert rows(folder / out) == rows(folder / "whole")


def test_a_second_training_run_in_a_folder_is_refused(folder: Path, begin: Begin) -> None:
    first = begin(folder, "shared")
    while first.poll() is None and not (folder / "shared" / "metrics.jsonl").exists():
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)  # keep it running until the second has tried
    second = begin(folder, "shared")
    stderr = second.communicate(timeout=100)[1]
    first.send_signal(signal.SIGCONT)
    assert second.returncode == 2
    assert stderr == f"regard: another training run writes into shared (process {first.number})\n"
    assert first.wait(200) == 0
    assert_same_run(folder / "whole", folder / "shared")


def test_resuming_with_another_model_is_refused(folder: Path, begin: Begin) -> None:
    process = begin(folder, "other")
    while process.poll() is None and not (folder / "other" / "recipe.toml").exists():
        time.sleep(0.01)
    process.kill()
    process.communicate()
    refused = begin(folder, "other", "model.d_ff=128")
    stderr = refused.communicate(timeout=100)[1]
    assert refused.returncode == 2
    assert (
        "regard: other was begun with model.d_ff = 64, not 128; use another folder for other settings\n"
        in stderr
    )


def test_a_full_disk_ends_with_code_1_or_is_ignored_on_request(folder: Path, begin: Begin) -> None:
    """On a file system with space for one or two checkpoints."""
    full = folder / "full"
    full.mkdir()
    size = sum(path.stat().st_size for path in (folder / "whole" / "checkpoints").rglob("*"))
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={size * 5 // 4}", "tmpfs", str(full)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        stopped = begin(folder, "full/run")
        stderr = stopped.communicate(timeout=200)[1]
        assert stopped.returncode == 1, stderr
        assert "cannot be written: the disk is full; the checkpoint of step" in stderr
        assert "Traceback" not in stderr
        names = sorted(path.name for path in (full / "run" / "checkpoints").iterdir())
        assert names
        assert all(name.isdecimal() for name in names)
        continued = begin(
            folder, "full/run", "train.unwritable=go-on", "train.keep_checkpoints=1", "train.steps=8"
        )
        stderr = continued.communicate(timeout=200)[1]
        assert "training continues" in stderr
    finally:
        subprocess.run(["umount", str(full)], check=True)
