"""Disk, memory and time that a large training run needs, extrapolated from measurements on this machine.

    python benchmarks/scale.py [--quick] [--json] [--peak TFLOPS --share SHARE]

Measured: training speed and its fraction of the matrix-product peak (base model), bytes per token of a token
store and pairs per second while building it (the picture book, BPE), bytes per parameter in training and in a
checkpoint. `--peak` and `--share` add your device: its peak, and the fraction of it that training reaches.
Rows: case, ours (the amount needed); peer, value and ratio are unused.
"""

import argparse
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
import training as bench
from harness.rounds import Row, as_json
from harness.updates import FailOnSkippedUpdate, training_of

from regard.config.models import TransformerConfig
from regard.data import picturebook
from regard.data.token_store import open_or_build
from regard.nn.build import build
from regard.tasks.translation.config import TokenizerConfig, TranslationTrainConfig
from regard.tasks.translation.vocabulary import train_tokenizer
from regard.tokenization import Tokenizer
from regard.training import checkpoint
from regard.training.objectives import Seq2SeqObjective
from regard.training.update import train_step


@dataclass(frozen=True)
class Job:
    """A training run to plan: number of pairs, tokens per side, and target tokens over all epochs."""

    name: str
    pairs: float
    tokens: float
    seen: float
    model: TransformerConfig
    vocabulary: int

    def operations(self) -> float:
        return self.seen * bench.operations(self.model, self.vocabulary)

    def parameters(self) -> int:
        with torch.device("meta"):
            model = build(self.model, self.vocabulary, self.vocabulary, 0)
        return sum(weight.numel() for weight in model.parameters())


BIG = TransformerConfig(size="big")
JOBS = (
    # The paper's big model: 300,000 updates of 25,000 target tokens (Vaswani et al. 2017, section 5).
    Job("WMT size, big", 4.5e6, 29, 300_000 * 25_000, BIG, 37_000),
    Job("web size, big, three epochs", 1e9, 29, 3 * 29e9, BIG, 64_000),
)


@dataclass(frozen=True)
class Measured:
    """Measurements on one machine."""

    operations: float
    """Floating-point operations per second in training."""
    share: float
    pairs_per_second: float
    tokens_per_pair: float
    """On one side."""
    bytes_per_token: float
    """Of a token store, including its text."""
    bytes_per_parameter: float
    """In training: weights, gradients, optimizer state, average."""
    checkpoint_bytes_per_parameter: float
    """In a checkpoint."""


def measure(quick: bool) -> Measured:
    rows, share = bench.speeds("small" if quick else "base", 3 if quick else 9)
    size = TransformerConfig(size="small" if quick else "base")
    speed = rows[0].ours * bench.operations(size)
    pairs, tokens, stored = measure_store(20_000 if quick else 200_000)
    in_training, saved = measure_parameter_bytes()
    return Measured(speed, share, pairs, tokens, stored, in_training, saved)


def measure_store(count: int) -> tuple[float, float, float]:
    """Pairs per second into a store, tokens per pair on one side, and bytes per token of the store."""
    texts = list(islice(picturebook.pairs("train", 40_000), 40_000))
    tokenizer = train_tokenizer(
        TokenizerConfig(vocab_size=8000), iter([text for pair in texts for text in pair]), None
    )
    pairs = [texts[number % len(texts)] for number in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        start_time = time.perf_counter()
        encode, size = tokenizer.encode_batch, tokenizer.size
        store = open_or_build(Path(folder) / "s", lambda: pairs, encode, encode, (size, size))
        seconds = time.perf_counter() - start_time
        size_in_bytes = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        sample = range(0, count, 97)
        tokens = sum(len(side.sentence(n)) for side in (store.source, store.target) for n in sample)
    tokens_per_side = tokens / 2 / len(sample)
    return count / seconds, tokens_per_side, size_in_bytes / (2 * tokens_per_side * count)


def measure_parameter_bytes() -> tuple[float, float]:
    """Bytes per parameter of the base model in training (Adam, weight average), and in its checkpoint."""
    model = build(TransformerConfig(size="base"), 8000, 8000, Tokenizer.padding)
    training = training_of(model, 512, TranslationTrainConfig(steps=1))
    objective, batches = Seq2SeqObjective(model, Tokenizer.padding, 0.1), bench.captions(64)[:1]
    train_step(training, objective, batches, 1e-4, FailOnSkippedUpdate())  # type: ignore[arg-type]
    parameters = sum(weight.numel() for weight in model.parameters())
    tensors = [*model.parameters(), *training.average.exponential.values()]
    tensors += [weight.grad for weight in model.parameters() if weight.grad is not None]
    tensors += [tensor for state in training.optimizer.state.values() for tensor in state.values()]
    in_training = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    with tempfile.TemporaryDirectory() as folder:
        written = checkpoint.save(training, Path(folder), 1)
        saved = sum(path.stat().st_size for path in written.iterdir())
    return in_training / parameters, saved / parameters


def plan(job: Job, measured: Measured, devices: dict[str, float]) -> list[Row]:
    """What a job needs; `devices`: operations per second in training, by device name."""
    parameters = job.parameters()
    build_hours = job.pairs / measured.pairs_per_second * job.tokens / measured.tokens_per_pair / 3600
    needed = {
        "parameters, millions": parameters / 1e6,
        "token store, GB": job.pairs * 2 * job.tokens * measured.bytes_per_token / 1e9,
        "hours to build the store, this machine": build_hours,
        "weights, gradients, optimizer and average, GB": parameters * measured.bytes_per_parameter / 1e9,
        "a checkpoint, GB": parameters * measured.checkpoint_bytes_per_parameter / 1e9,
        "operations, 10^18": job.operations() / 1e18,
        "gradients sent per process and update, GB": 2 * 4 * parameters / 1e9,
    }
    needed |= {f"days on one {name}": job.operations() / speed / 86_400 for name, speed in devices.items()}
    return [Row(f"{job.name}: {what}", value) for what, value in needed.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer turns: about a minute")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--peak", type=float, help="a device's peak in TFLOP/s")
    parser.add_argument("--share", type=float, default=0.35, help="the fraction of it that training reaches")
    options = parser.parse_args()
    measured = measure(options.quick)
    devices = {"machine like this": measured.operations}
    if options.peak:
        devices[f"device of {options.peak:g} TFLOP/s at {options.share:.0%}"] = (
            options.peak * 1e12 * options.share
        )
    rows = [row for job in JOBS for row in plan(job, measured, devices)]
    if options.json:
        print(as_json(rows))
        return
    print(
        f"training: {measured.operations / 1e9:,.0f} GFLOP/s, {measured.share:.0%} of the matrix-product peak\n"
        f"token store: {measured.pairs_per_second:,.0f} pairs per second, "
        f"{measured.tokens_per_pair:.1f} tokens per pair and side, "
        f"{measured.bytes_per_token:.1f} bytes per token\n"
        f"per parameter: {measured.bytes_per_parameter:.1f} bytes in training, "
        f"{measured.checkpoint_bytes_per_parameter:.1f} in a checkpoint"
    )
    for row in rows:
        print(f"{row.case:84}{row.ours:12,.1f}")


if __name__ == "__main__":
    main()
