"""What a large job needs in disks, memory, hours and machines, calculated from what is measured here.

    python benchmarks/scale.py [--quick] [--json] [--peak TFLOPS --share SHARE]

Measured: training speed and its share of the matrix-product peak (base model), bytes a token of a token store
and pairs a second while it is built (the picture book, BPE), bytes a parameter in training and in a checkpoint.
`--peak` and `--share` add a device of yours: its peak, and the share of it that training reaches there.
Rows: case, ours (what is needed), peer (what it is counted in), value and ratio (unused).
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
from harness.updates import StrictWatcher, training_of

from regard.config.models import TransformerConfig
from regard.data import picturebook
from regard.data.token_store import open_or_build
from regard.nn.build import build
from regard.tasks.translation.config import TokenizerConfig, TranslationTrainConfig
from regard.tasks.translation.vocabulary import learn
from regard.tokenization import Tokenizer
from regard.training import checkpoint
from regard.training.objective import PairObjective
from regard.training.update import one_update


@dataclass(frozen=True)
class Job:
    """A training to plan: pairs of so many tokens a side, and target tokens seen in all."""

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
        return sum(each.numel() for each in model.parameters())


BIG = TransformerConfig(size="big")
JOBS = (
    # The paper's big model: 300,000 updates of 25,000 target tokens (Vaswani et al. 2017, section 5).
    Job("WMT size, big", 4.5e6, 29, 300_000 * 25_000, BIG, 37_000),
    Job("web size, big, three times through", 1e9, 29, 3 * 29e9, BIG, 64_000),
)


@dataclass(frozen=True)
class Measured:
    """What one machine told."""

    operations: float
    """A second, in training."""
    share: float
    pairs_a_second: float
    tokens_a_pair: float
    """On one side, while the store was built."""
    bytes_a_token: float
    """Of a token store, its text included."""
    bytes_a_parameter: float
    """Held in training: weights, gradients, optimizer, average."""
    saved_a_parameter: float
    """In a checkpoint."""


def measure(quick: bool) -> Measured:
    rows, share = bench.speeds("small" if quick else "base", 3 if quick else 9)
    size = TransformerConfig(size="small" if quick else "base")
    speed = rows[0].ours * bench.operations(size)
    pairs, tokens, stored = stored_pairs(20_000 if quick else 200_000)
    held, saved = held_and_saved()
    return Measured(speed, share, pairs, tokens, stored, held, saved)


def stored_pairs(count: int) -> tuple[float, float, float]:
    """Pairs a second into a store, their tokens on one side, and the store's bytes a token."""
    texts = list(islice(picturebook.pairs("train", 40_000), 40_000))
    tokenizer = learn(TokenizerConfig(size=8000), iter([text for pair in texts for text in pair]), None)
    many = [texts[number % len(texts)] for number in range(count)]
    with tempfile.TemporaryDirectory() as place:
        begun = time.perf_counter()
        encode, size = tokenizer.encode_batch, tokenizer.size
        store = open_or_build(Path(place) / "s", lambda: many, encode, encode, (size, size))
        seconds = time.perf_counter() - begun
        held = sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file())
        some = range(0, count, 97)
        tokens = sum(len(side.sentence(n)) for side in (store.source, store.target) for n in some)
    a_side = tokens / 2 / len(some)
    return count / seconds, a_side, held / (2 * a_side * count)


def held_and_saved() -> tuple[float, float]:
    """Bytes a parameter while the base model is trained by Adam with an average, and in its checkpoint."""
    model = build(TransformerConfig(size="base"), 8000, 8000, Tokenizer.padding)
    training = training_of(model, 512, TranslationTrainConfig(steps=1))
    objective, some = PairObjective(model, Tokenizer.padding, 0.1), bench.captions(64)[:1]
    one_update(training, objective, some, 1e-4, StrictWatcher())  # type: ignore[arg-type]
    parameters = sum(each.numel() for each in model.parameters())
    kept = [*model.parameters(), *training.average.exponential.values()]
    kept += [each.grad for each in model.parameters() if each.grad is not None]
    kept += [each for state in training.optimizer.state.values() for each in state.values()]
    held = sum(each.numel() * each.element_size() for each in kept)
    with tempfile.TemporaryDirectory() as place:
        written = checkpoint.save(training, Path(place), 1)
        saved = sum(path.stat().st_size for path in written.iterdir())
    return held / parameters, saved / parameters


def plan(job: Job, found: Measured, devices: dict[str, float]) -> list[Row]:
    """What a job needs; `devices` by name with the operations a second that training reaches on them."""
    parameters = job.parameters()
    build_hours = job.pairs / found.pairs_a_second * job.tokens / found.tokens_a_pair / 3600
    needed = {
        "parameters, millions": parameters / 1e6,
        "token store, GB": job.pairs * 2 * job.tokens * found.bytes_a_token / 1e9,
        "hours to build the store, this machine": build_hours,
        "weights, gradients, optimizer and average, GB": parameters * found.bytes_a_parameter / 1e9,
        "a checkpoint, GB": parameters * found.saved_a_parameter / 1e9,
        "operations, 10^18": job.operations() / 1e18,
        "gradients a process sends at each update, GB": 2 * 4 * parameters / 1e9,
    }
    needed |= {f"days on one {name}": job.operations() / speed / 86_400 for name, speed in devices.items()}
    return [Row(f"{job.name}: {what}", value) for what, value in needed.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer turns: about a minute")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--peak", type=float, help="a device's peak in TFLOP/s")
    parser.add_argument("--share", type=float, default=0.35, help="the share of it that training reaches")
    options = parser.parse_args()
    found = measure(options.quick)
    devices = {"machine like this": found.operations}
    if options.peak:
        devices[f"device of {options.peak:g} TFLOP/s used to {options.share:.0%}"] = (
            options.peak * 1e12 * options.share
        )
    rows = [row for job in JOBS for row in plan(job, found, devices)]
    if options.json:
        print(as_json(rows))
        return
    print(
        f"training: {found.operations / 1e9:,.0f} GFLOP/s, {found.share:.0%} of the matrix-product peak\n"
        f"token store: {found.pairs_a_second:,.0f} pairs of {found.tokens_a_pair:.1f} tokens a second, "
        f"{found.bytes_a_token:.1f} bytes a token\n"
        f"a parameter: {found.bytes_a_parameter:.1f} bytes in training, "
        f"{found.saved_a_parameter:.1f} in a checkpoint"
    )
    for row in rows:
        print(f"{row.case:84}{row.ours:12,.1f}")


if __name__ == "__main__":
    main()
