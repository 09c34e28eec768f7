"""Several processes on one training, started by torchrun as a user would."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from support.quick_command import QuickProcess
from support.small_translation import write_numbers
from support.without_figures import WITHOUT_FIGURES

Command = Callable[..., subprocess.CompletedProcess[str]]
Begin = Callable[..., QuickProcess]

RECIPE = [
    "train", "translation", "data.source=n.de", "data.target=n.en", "tokenizer.kind=words", "tokenizer.min_count=1",
    "model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=32", "model.heads=2", "model.d_ff=64",
    "train.batch_tokens=256", "train.steps=40", "train.validate_every=20", "train.validate_sentences=10",
    "train.checkpoint_every=5", "train.log_every=5", "train.lr=0.005", "train.warmup=10",
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torchrun")
    write_numbers(folder, 600)
    return folder


@pytest.fixture(scope="module")
def begin(programs: Path, place: Path) -> Begin:
    """Starts a command in so many processes; `anew` where one of them is to be killed, and no fork's asker with it."""

    def call(*command: str, workers: int = 2, anew: bool = False) -> QuickProcess:
        surroundings = {**os.environ, "REGARD_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"}
        start = [sys.executable, "-m", "regard"] if anew else [str(programs / "regard")]
        if workers > 1:
            several = [f"--nproc-per-node={workers}", "--max-restarts=3", "--no-python"]
            start = [str(programs / "torchrun"), "--standalone", *several, *start]
        return QuickProcess(
            [*start, *command],
            env=surroundings,
            first=WITHOUT_FIGURES,
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return call


@pytest.fixture(scope="module")
def one(place: Path, begin: Begin) -> Path:
    """A run by one process, without dropout."""
    finish(begin(*RECIPE, "model.dropout=0", "--out", "one", workers=1))
    return place / "one"


def finish(process: QuickProcess) -> str:
    return printed_and_told(process)[0]


def printed_and_told(process: QuickProcess) -> tuple[str, str]:
    printed, told = process.communicate(timeout=200)
    assert process.returncode == 0, told
    return printed, told


def losses(run: Path) -> list[float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [row["loss"] for row in rows]


def workers_of(process: QuickProcess) -> list[int]:
    """The processes that torchrun has started, the first rank first."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.number)], capture_output=True, text=True, check=False
    )
    return sorted(int(number) for number in listed.stdout.split())


def test_two_processes_learn_what_one_learns(place: Path, begin: Begin, one: Path) -> None:
    """Without dropout: each process draws its own."""
    printed = finish(begin(*RECIPE, "model.dropout=0", "--out", "two"))
    assert printed.count("BLEU") == 1  # the first speaks for all
    alone, together = losses(one), losses(place / "two")
    assert len(alone) == len(together) == 10
    assert max(abs(a - b) for a, b in zip(alone, together, strict=True)) < 1e-4


@pytest.mark.slow
def test_a_worker_that_dies_changes_nothing(place: Path, begin: Begin) -> None:
    whole, torn = begin(*RECIPE, "model.dropout=0.1", "--out", "whole"), None
    finish(whole)
    torn = begin(*RECIPE, "model.dropout=0.1", "--out", "torn", anew=True)
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
        ("train.optimizer=muon", "train.average=last", "train.grad_accum=2"),
        pytest.param(("train.optimizer=adam",), marks=pytest.mark.slow),
        pytest.param(("train.optimizer=lion", "train.lr=0.0005"), marks=pytest.mark.slow),
        # A process without a row computes with the others all the same.
        pytest.param(("train.optimizer=adamw", "train.batch_sentences=1"), marks=pytest.mark.slow),
    ],
    ids=lambda more: ", ".join(more),
)
def test_a_sharded_model_learns_what_a_whole_one_learns(
    place: Path, begin: Begin, more: tuple[str, ...]
) -> None:
    settings = ("model.dropout=0", "train.steps=20", "train.validate_every=10", *more)
    whole, cut = f"{more[0]} whole", f"{more[0]} cut"
    finish(begin(*RECIPE, *settings, "--out", whole, workers=1))
    _, told = printed_and_told(begin(*RECIPE, "train.shard=true", *settings, "--out", cut))
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
def test_a_sharded_training_goes_on_where_it_was(place: Path, begin: Begin) -> None:
    settings = ("model.dropout=0.1", "train.shard=true", "train.optimizer=muon")
    finish(begin(*RECIPE, *settings, "--out", "parts"))
    shutil.copytree(place / "parts", place / "parts again")
    (place / "parts again" / "config.json").unlink()
    shutil.rmtree(place / "parts again" / "checkpoints" / "40")
    finish(begin(*RECIPE, *settings, "--out", "parts again", "--resume"))
    for name in ("model.safetensors", "checkpoints/40/tensors.safetensors"):
        assert (place / "parts" / name).read_bytes() == (place / "parts again" / name).read_bytes()


def test_several_processes_need_a_name_for_their_folder(place: Path, regard: Command) -> None:
    done = regard(*RECIPE, cwd=place, env={**os.environ, "WORLD_SIZE": "2", "RANK": "0"})
    assert done.returncode == 2
    assert done.stderr == "regard: several processes train together: name their run folder with --out\n"


def test_a_file_is_translated_in_shares(place: Path, begin: Begin, one: Path) -> None:
    lines = (place / "n.de").read_text("utf-8").splitlines() * 12  # several windows
    (place / "many.de").write_text("\n".join(lines) + "\n", "utf-8")
    command = ["translate", one.name, "many.de", "--beam", "1", "-o"]
    for workers, out in ((1, "alone.en"), (2, "together.en")):
        finish(begin(*command, out, workers=workers))
    assert (place / "alone.en").read_bytes() == (place / "together.en").read_bytes()
    assert len((place / "together.en").read_text("utf-8").splitlines()) == len(lines)
    assert not list(place.glob(".together*"))


def test_shares_need_a_file_to_write(place: Path, regard: Command, one: Path) -> None:
    ended = regard("translate", one.name, "n.de", cwd=place, env={**os.environ, "WORLD_SIZE": "2", "RANK": "0"})
    assert ended.returncode == 2
    assert "give FILE and -o" in ended.stderr
