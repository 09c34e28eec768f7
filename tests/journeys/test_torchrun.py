"""Distributed training and translation with several processes, started by torchrun."""

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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torchrun")
    write_numbers(folder, 600)
    return folder


@pytest.fixture(scope="module")
def begin(programs: Path, folder: Path) -> Begin:
    """Starts a command in several processes.

    `separate`: start real processes instead of forks of the quick server, so that one can be killed alone.
    """

    def call(*command: str, workers: int = 2, separate: bool = False) -> QuickProcess:
        environment = {**os.environ, "REGARD_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        start = [sys.executable, "-m", "regard"] if separate else [str(programs / "regard")]
        if workers > 1:
            options = [f"--nproc-per-node={workers}", "--max-restarts=3", "--no-python"]
            start = [str(programs / "torchrun"), "--standalone", *options, *start]
        return QuickProcess(
            [*start, *command],
            env=environment,
            first=WITHOUT_FIGURES,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return call


@pytest.fixture(scope="module")
def one(folder: Path, begin: Begin) -> Path:
    """A run trained by one process, without dropout."""
    finish(begin(*RECIPE, "model.dropout=0", "--out", "one", workers=1))
    return folder / "one"


def finish(process: QuickProcess) -> str:
    return outputs_of(process)[0]


def outputs_of(process: QuickProcess) -> tuple[str, str]:
    stdout, stderr = process.communicate(timeout=200)
    assert process.returncode == 0, stderr
    return stdout, stderr


def losses(run: Path) -> list[float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [row["loss"] for row in rows if row["kind"] != "start"]


def workers_of(process: QuickProcess) -> list[int]:
    """Ids of the processes that torchrun started, by rank."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.number)], capture_output=True, text=True, check=False
    )
    return sorted(int(number) for number in listed.stdout.split())


def test_two_processes_train_like_one(folder: Path, begin: Begin, one: Path) -> None:
    """Without dropout, since each process has its own random numbers."""
    printed = finish(begin(*RECIPE, "model.dropout=0", "--out", "two"))
    assert printed.count("run saved in") == 1  # only the first process prints
    alone, together = losses(one), losses(folder / "two")
    assert len(alone) == len(together) == 10
    assert max(abs(a - b) for a, b in zip(alone, together, strict=True)) < 1e-4


@pytest.mark.slow
def test_a_killed_worker_does_not_change_the_result(folder: Path, begin: Begin) -> None:
    whole, torn = begin(*RECIPE, "model.dropout=0.1", "--out", "whole"), None
    finish(whole)
    torn = begin(*RECIPE, "model.dropout=0.1", "--out", "torn", separate=True)
    while torn.poll() is None and not list((folder / "torn" / "checkpoints").glob("[0-9]*")):
        time.sleep(0.01)
    worker = workers_of(torn)[-1]
    os.kill(worker, signal.SIGKILL)
    finish(torn)
    for name in ("model.safetensors", "config.json"):
        assert (folder / "whole" / name).read_bytes() == (folder / "torn" / name).read_bytes()
    assert losses(folder / "whole") == losses(folder / "torn")


@pytest.mark.parametrize(
    "more",
    [
        ("train.optimizer=muon", "train.averaging=last", "train.grad_accum=2"),
        pytest.param(("train.optimizer=adam",), marks=pytest.mark.slow),
        pytest.param(("train.optimizer=lion", "train.lr=0.0005"), marks=pytest.mark.slow),
        # A process without rows of the batch still takes part.
        pytest.param(("train.optimizer=adamw", "train.batch_sentences=1"), marks=pytest.mark.slow),
    ],
    ids=lambda more: ", ".join(more),
)
def test_a_sharded_model_trains_like_a_whole_one(folder: Path, begin: Begin, more: tuple[str, ...]) -> None:
    settings = ("model.dropout=0", "train.steps=20", "train.validate_every=10", *more)
    whole, cut = f"{more[0]} whole", f"{more[0]} cut"
    finish(begin(*RECIPE, *settings, "--out", whole, workers=1))
    _, stderr = outputs_of(begin(*RECIPE, "train.shard=true", *settings, "--out", cut))
    sizes = re.search(r"model: ([\d,]+) parameters on cpu, ([\d,]+) of them in this process", stderr)
    assert sizes is not None, stderr
    total, sharded = (int(size.replace(",", "")) for size in sizes.groups())
    assert sharded < 0.51 * total
    one, two = losses(folder / whole), losses(folder / cut)
    assert len(one) == len(two) == 6
    assert max(abs(a - b) for a, b in zip(one, two, strict=True)) < 1e-4
    weights, parts = (load_file(folder / name / "model.safetensors") for name in (whole, cut))
    assert weights.keys() == parts.keys()
    for key, weight in weights.items():
        assert torch.allclose(weight, parts[key], atol=1e-3), key


@pytest.mark.slow
def test_sharded_training_resumes_bit_identically(folder: Path, begin: Begin) -> None:
    settings = ("model.dropout=0.1", "train.shard=true", "train.optimizer=muon")
    finish(begin(*RECIPE, *settings, "--out", "parts"))
    shutil.copytree(folder / "parts", folder / "parts again")
    (folder / "parts again" / "config.json").unlink()
    shutil.rmtree(folder / "parts again" / "checkpoints" / "40")
    finish(begin(*RECIPE, *settings, "--out", "parts again", "--resume"))
    for name in ("model.safetensors", "checkpoints/40/tensors.safetensors"):
        assert (folder / "parts" / name).read_bytes() == (folder / "parts again" / name).read_bytes()


def test_several_processes_need_an_output_folder(folder: Path, regard: Command) -> None:
    done = regard(*RECIPE, cwd=folder, env={**os.environ, "WORLD_SIZE": "2", "RANK": "0"})
    assert done.returncode == 2
    assert done.stderr == "regard: several processes train together; name their run folder with --out\n"


def test_processes_share_the_lines_of_a_file(folder: Path, begin: Begin, one: Path) -> None:
    lines = (folder / "n.de").read_text("utf-8").splitlines() * 12  # several windows
    (folder / "many.de").write_text("\n".join(lines) + "\n", "utf-8")
    command = ["translate", one.name, "many.de", "--beam", "1", "-o"]
    for workers, out in ((1, "alone.en"), (2, "together.en")):
        finish(begin(*command, out, workers=workers))
    assert (folder / "alone.en").read_bytes() == (folder / "together.en").read_bytes()
    assert len((folder / "together.en").read_text("utf-8").splitlines()) == len(lines)
    assert not list(folder.glob(".together*"))


def test_several_processes_need_an_output_file(folder: Path, regard: Command, one: Path) -> None:
    ended = regard(
        "translate", one.name, "n.de", cwd=folder, env={**os.environ, "WORLD_SIZE": "2", "RANK": "0"}
    )
    assert ended.returncode == 2
    assert "FILE and -o are required" in ended.stderr
