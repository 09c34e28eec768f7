"""Trainings that are killed, stopped and raced: what they leave, and what comes of going on."""

import contextlib
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
DIES_WRITING = """
import os, signal
left, flush = {count}, os.fsync
def dies(descriptor):
    global left
    path = os.readlink(f"/proc/self/fd/{{descriptor}}")
    left -= "/{out}/" in path and ".part" in path
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    flush(descriptor)
os.fsync = dies
"""
"""Killed, as if from outside, when it is about to flush what it writes into the run for the so-many-th time."""

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
    """Starts a training in a process of its own; with --resume once its folder is there, as an unattended machine would."""

    def call(folder: Path, out: str, *more: str, first: str = "") -> QuickProcess:
        surroundings = {**os.environ, "REGARD_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        resume = ["--resume"] if (folder / out).is_dir() else []
        return QuickProcess(
            [str(programs / "regard"), *RECIPE, *more, *resume, "--out", out], cwd=folder, env=surroundings,
            first=WITHOUT_FIGURES + first, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return call


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, begin: Begin) -> Path:
    """A folder with a corpus, and `whole`, a run that was never interrupted."""
    folder = tmp_path_factory.mktemp("killed")
    write_numbers(folder, 600)
    done = begin(folder, "whole")
    told = done.communicate(timeout=200)[1]
    assert done.returncode == 0, told
    return folder


def same_run(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert rows(one) == rows(other)
    assert unfinished(other) == []


def rows(run: Path) -> list[tuple]:
    """The metrics without the times."""
    import json

    kept = []
    for line in (run / "metrics.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        kept.append(
            tuple((key, str(row[key])) for key in sorted(row) if key not in ("minutes", "tokens_per_second"))
        )
    return kept


def killed_and_resumed(begin: Begin, place: Path, out: str, kills: int, seed: int) -> int:
    """Kill -9 so many times, by turns at a random moment and inside a write; how many were inside one."""
    sampling = random.Random(seed)
    inside = 0
    for hit in range(kills):
        in_a_write = hit % 2 == 1
        if in_a_write:
            count = sampling.randint(1, 8)
            process = begin(place, out, first=DIES_WRITING.format(count=count, out=out))
        else:
            process = begin(place, out)
            wait_until_training(place / out, process)
            time.sleep(sampling.uniform(0.0, 0.1))
            process.send_signal(signal.SIGKILL)
        told = process.communicate(timeout=200)[1]
        assert process.returncode == -signal.SIGKILL, told
        assert not in_a_write or unfinished(place / out)
        inside += in_a_write
    process = begin(place, out)
    told = process.communicate(timeout=200)[1]
    assert process.returncode == 0, told
    return inside


def unfinished(run: Path) -> list[str]:
    """What is being written at this moment."""
    names: list[str] = []
    for folder in (run, run / "checkpoints"):
        with contextlib.suppress(OSError):
            names += [name for name in os.listdir(folder) if name.endswith((".part", ".old"))]
    return names


def wait_until_training(run: Path, process: QuickProcess) -> None:
    """Until it has written something since it began."""
    before = newest(run)
    while process.poll() is None and newest(run) <= before:
        time.sleep(0.01)


def newest(run: Path) -> float:
    try:
        return max((path.stat().st_mtime for path in run.rglob("*")), default=0.0)
    except FileNotFoundError:  # renamed while we looked
        return 0.0


def test_three_kills_change_nothing(place: Path, begin: Begin) -> None:
    assert killed_and_resumed(begin, place, "three", kills=3, seed=1) == 1
    same_run(place / "whole", place / "three")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_five_kills_change_nothing(place: Path, begin: Begin) -> None:
    inside = killed_and_resumed(begin, place, "many", kills=25, seed=2)
    same_run(place / "whole", place / "many")
    print(f"\n25 kills, {inside} of them inside a write: every file the same as without")


@pytest.mark.parametrize("asked", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_saves_first(place: Path, begin: Begin, asked: signal.Signals) -> None:
    out = f"asked-{asked.name}"
    process = begin(place, out, "train.checkpoint_every=1000")  # nothing but the signal makes it save
    while process.poll() is None and not (place / out / "metrics.jsonl").exists():
        time.sleep(0.01)
    process.send_signal(asked)
    told = process.communicate(timeout=200)[1]
    assert process.returncode == 128 + asked, told
    assert "and saved; go on with --resume" in told
    assert "Traceback" not in told
    assert len(list((place / out / "checkpoints").iterdir())) == 1
    done = begin(place, out, "train.checkpoint_every=1000")
    told = done.communicate(timeout=200)[1]
    assert done.returncode == 0, told
    assert (place / out / "model.safetensors").read_bytes() == (
        place / "whole" / "model.safetensors"
    ).read_bytes()
    assert rows(place / out) == rows(place / "whole")


def test_the_second_training_in_a_folder_is_refused(place: Path, begin: Begin) -> None:
    first = begin(place, "shared")
    while first.poll() is None and not (place / "shared" / "metrics.jsonl").exists():
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)  # it is not to be done before the second has tried
    second = begin(place, "shared")
    told = second.communicate(timeout=100)[1]
    first.send_signal(signal.SIGCONT)
    assert second.returncode == 2
    assert told == f"regard: another training is writing into shared (process {first.number})\n"
    assert first.wait(200) == 0
    same_run(place / "whole", place / "shared")


def test_going_on_with_another_model_is_refused(place: Path, begin: Begin) -> None:
    process = begin(place, "other")
    while process.poll() is None and not (place / "other" / "recipe.toml").exists():
        time.sleep(0.01)
    process.kill()
    process.communicate()
    refused = begin(place, "other", "model.d_ff=128")
    told = refused.communicate(timeout=100)[1]
    assert refused.returncode == 2
    assert (
        "regard: other was begun with model.d_ff = 64, not 128; for another one, take another folder\n" in told
    )


def test_a_full_disk_ends_with_code_1_or_not_at_all(place: Path, begin: Begin) -> None:
    """On a real file system with room for a checkpoint or two."""
    full = place / "full"
    full.mkdir()
    size = sum(path.stat().st_size for path in (place / "whole" / "checkpoints").rglob("*"))
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={size * 5 // 4}", "tmpfs", str(full)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here (not root)")
    try:
        stopped = begin(place, "full/run")
        told = stopped.communicate(timeout=200)[1]
        assert stopped.returncode == 1, told
        assert "cannot be written: the disk is full; the checkpoint of step" in told
        assert "Traceback" not in told
        kept = sorted(path.name for path in (full / "run" / "checkpoints").iterdir())
        assert kept
        assert all(name.isdecimal() for name in kept)
        going = begin(place, "full/run", "train.unwritable=go-on", "train.keep=1", "train.steps=8")
        told = going.communicate(timeout=200)[1]
        assert "training goes on" in told
    finally:
        subprocess.run(["umount", str(full)], check=True)
