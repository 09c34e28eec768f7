"""Several processes on one training, started by torchrun as a user would."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from numbers_corpus import write_numbers
from safetensors.torch import load_file

RECIPE = [
    "train", "translation", "data.source=n.de", "data.target=n.en", "text.kind=words", "text.min_count=1",
    "model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=32", "model.heads=2", "model.d_ff=64",
    "train.batch_tokens=256", "train.steps=40", "train.validate_every=20", "train.validate_sentences=10",
    "train.checkpoint_every=5", "train.log_every=5", "train.rate=0.005", "train.warmup=10",
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torchrun")
    write_numbers(folder, 600)
    return folder


@pytest.fixture(scope="module")
def one(place: Path) -> Path:
    """A run by one process, without dropout."""
    finish(begin(place, "one", "model.dropout=0", workers=1))
    return place / "one"


def begin(place: Path, out: str, *more: str, workers: int = 2) -> subprocess.Popen[str]:
    surroundings = {**os.environ, "REGARD_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"}
    start = [sys.executable, "-m"]
    if workers > 1:
        start += [
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={workers}",
            "--max-restarts=3",
            "-m",
        ]
    return subprocess.Popen(
        [*start, "regard", *RECIPE, *more, "--out", out], cwd=place, env=surroundings, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    return printed_and_told(process)[0]


def printed_and_told(process: subprocess.Popen[str]) -> tuple[str, str]:
    printed, told = process.communicate(timeout=200)
    assert process.returncode == 0, told
    return printed, told


def losses(run: Path) -> list[float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [row["loss"] for row in rows]


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes that torchrun has started, the first rank first."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=False
    )
    return sorted(int(number) for number in listed.stdout.split())


def test_two_processes_learn_what_one_learns(place: Path, one: Path) -> None:
    """Without dropout: each process draws its own."""
    printed = finish(begin(place, "two", "model.dropout=0"))
    assert printed.count("BLEU") == 1  # the first speaks for all
    alone, together = losses(one), losses(place / "two")
    assert len(alone) == len(together) == 10
    assert max(abs(a - b) for a, b in zip(alone, together, strict=True)) < 1e-4


@pytest.mark.slow
def test_a_worker_that_dies_changes_nothing(place: Path) -> None:
    whole, torn = begin(place, "whole", "model.dropout=0.1"), None
    finish(whole)
    torn = begin(place, "torn", "model.dropout=0.1")
    while torn.poll() is None and not list((place / "torn" / "checkpoints").glob("[0-9]*")):
        time.sleep(0.01)
    victim = workers_of(torn)[-1]
    os.kill(victim, signal.SIGKILL)
    finish(torn)
    for name in ("model.safetensors", "config.json"):
        assert (place / "whole" / name).read_bytes() == (place / "torn" / name).read_bytes()
    assert losses(place / "whole") == losses(place / "torn")


@pytest.mark.parametrize(
    "more",
    [
        ("train.optimiser=muon", "train.average=last", "train.accumulate=2"),
        pytest.param(("train.optimiser=adam",), marks=pytest.mark.slow),
        # A process without a row computes with the others all the same.
        pytest.param(("train.optimiser=adamw", "train.batch_sentences=1"), marks=pytest.mark.slow),
    ],
    ids=lambda more: ", ".join(more),
)
def test_a_sharded_model_learns_what_a_whole_one_learns(place: Path, more: tuple[str, ...]) -> None:
    settings = ("model.dropout=0", "train.steps=20", "train.validate_every=10", *more)
    whole, cut = f"{more[0]} whole", f"{more[0]} cut"
    finish(begin(place, whole, *settings, workers=1))
    _, told = printed_and_told(begin(place, cut, "train.shard=true", *settings))
    sizes = re.search(r"model: ([\d,]+) parameters on cpu, ([\d,]+) of them in this process", told)
    assert sizes is not None, told
    all_of_them, here = (int(size.replace(",", "")) for size in sizes.groups())
    assert here < 0.51 * all_of_them
    one, two = losses(place / whole), losses(place / cut)
    assert len(one) == len(two) == 6
    assert max(abs(a - b) for a, b in zip(one, two, strict=True)) < 1e-4
    weights, parts = (load_file(place / name / "model.safetensors") for name in (whole, cut))
    assert weights.keys() == parts.keys()
    for key, weight in weights.items():
        assert torch.allclose(weight, parts[key], atol=1e-3), key


@pytest.mark.slow
def test_a_sharded_training_goes_on_where_it_was(place: Path) -> None:
    settings = ("model.dropout=0.1", "train.shard=true", "train.optimiser=muon")
    finish(begin(place, "parts", *settings))
    shutil.copytree(place / "parts", place / "parts again")
    (place / "parts again" / "config.json").unlink()
    shutil.rmtree(place / "parts again" / "checkpoints" / "40")
    finish(begin(place, "parts again", *settings, "--resume"))
    for name in ("model.safetensors", "checkpoints/40/tensors.safetensors"):
        assert (place / "parts" / name).read_bytes() == (place / "parts again" / name).read_bytes()


def test_several_processes_need_a_name_for_their_folder(place: Path) -> None:
    surroundings = {**os.environ, "WORLD_SIZE": "2", "RANK": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "regard", *RECIPE], cwd=place, env=surroundings, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "regard: several processes train together: name their run folder with --out\n"


def test_a_file_is_translated_in_shares(place: Path, one: Path) -> None:
    lines = (place / "n.de").read_text("utf-8").splitlines() * 12  # several windows
    (place / "many.de").write_text("\n".join(lines) + "\n", "utf-8")
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = ["regard", "translate", one.name, "many.de", "--beam", "1", "-o"]
    several = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    for start, out in (([], "alone.en"), (several, "together.en")):
        subprocess.run(
            [sys.executable, "-m", *start, *command, out], cwd=place, env=surroundings, check=True, timeout=200,
            capture_output=True,
        )  # fmt: skip
    assert (place / "alone.en").read_bytes() == (place / "together.en").read_bytes()
    assert len((place / "together.en").read_text("utf-8").splitlines()) == len(lines)
    assert not list(place.glob(".together*"))


def test_shares_need_a_file_to_write(place: Path, one: Path) -> None:
    surroundings = {**os.environ, "WORLD_SIZE": "2", "RANK": "0"}
    ended = subprocess.run(
        [sys.executable, "-m", "regard", "translate", one.name, "n.de"], cwd=place, env=surroundings,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "give FILE and -o" in ended.stderr
