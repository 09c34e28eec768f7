"""How time and memory grow: with sentence length, batch, vocabulary, and corpus size (10^4 to 10^7 pairs).

    python benchmarks/growth.py [--quick] [--json] [--pairs 10000000]

Each case runs in a process of its own, which reports its time and peak memory. Rows: case, ours (the
case's value), peer (the smallest case of its kind), value (that one's), ratio.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from harness.rounds import Row, as_json, show
from harness.updates import updates

from regard.config.models import TransformerConfig
from regard.data.batches import Batch, Batches
from regard.data.token_store import open_or_build
from regard.nn.build import build
from regard.tasks.translation.config import TranslationTrainConfig
from regard.tokenization import Tokenizer
from regard.training.objective import PairObjective
from regard.training.process import training_process

WORDS = 8000
TABLE = [f"w{number}" for number in range(WORDS)]


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def training_step(vocabulary: int = WORDS) -> Callable[[Batch], object]:
    """A training step of the smallest model."""
    torch.manual_seed(0)
    config = TransformerConfig(size="tiny", max_length=2048)
    model = build(config, vocabulary, vocabulary, Tokenizer.padding).train()
    objective = PairObjective(model, Tokenizer.padding, 0.1)
    return updates(model, objective, config.width, TranslationTrainConfig(steps=1), lr=1e-4)


def made_up(sentences: int, length: int, vocabulary: int = WORDS) -> Batch:
    ids = torch.randint(4, vocabulary, (3, sentences, length))
    return Batch(ids[0], ids[1], ids[2], sentences * length, ())


def microseconds_a_token(sentences: int, length: int, vocabulary: int = WORDS) -> dict[str, float]:
    step, batch = training_step(vocabulary), made_up(sentences, length, vocabulary)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        step(batch)
        times.append(time.perf_counter() - start)
    return {"time": sorted(times)[2] / batch.tokens * 1e6, "memory": memory()}


def corpus(pairs: int) -> dict[str, float]:
    """Build a token store of so many pairs, then train from it: seconds, memory, tokens a second."""

    def some() -> object:
        sampling = np.random.default_rng(1)
        for _ in range(0, pairs, 10_000):
            numbers = sampling.integers(4, WORDS, (10_000, 2, 14))
            lengths = sampling.integers(6, 15, (10_000, 2))
            for both, long in zip(numbers.tolist(), lengths.tolist(), strict=True):
                yield tuple(
                    " ".join(map(TABLE.__getitem__, ids[:n])) for ids, n in zip(both, long, strict=True)
                )

    def encode(texts: list[str]) -> list[list[int]]:
        return [[int(word[1:]) for word in text.split(" ")] for text in texts]

    with tempfile.TemporaryDirectory() as place, training_process():
        start = time.perf_counter()
        store = open_or_build(Path(place) / "store", some, encode, encode, (WORDS, WORDS))  # type: ignore[arg-type]
        built, held = time.perf_counter() - start, memory()
        step, start = training_step(), time.perf_counter()
        batches = Batches(store, tokens=2048)
        batches.batches_per_epoch()
        stream = batches.stream()
        step(next(stream)[0])
        begun = time.perf_counter() - start
        tokens, start = 0, time.perf_counter()
        while time.perf_counter() - start < 15:
            batch, _ = next(stream)
            step(batch)
            tokens += batch.tokens
        speed = tokens / (time.perf_counter() - start)
    return {"built": built, "memory": held, "first step": begun, "tokens a second": speed}


def in_a_process(kind: str, *numbers: int) -> dict[str, float]:
    printed = subprocess.run(
        [sys.executable, __file__, "--case", kind, *map(str, numbers)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def grown(kind: str, cases: list[tuple[str, tuple[int, ...]]]) -> list[Row]:
    """A row for each case and each thing measured, beside the first case."""
    rows: list[Row] = []
    first: dict[str, float] = {}
    for name, numbers in cases:
        found = in_a_process(kind, *numbers)
        first = first or found
        for what, value in found.items():
            ratio = value / first[what]
            rows.append(Row(f"{name}: {what}", value, cases[0][0], first[what], ratio))
            print(f"{name}: {what} {value:,.3f} ({ratio:.2f} times)", file=sys.stderr)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller cases: about a minute")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--pairs", type=int, default=10**7, help="the largest corpus")
    parser.add_argument("--case", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        kind, *numbers = options.case
        measure = corpus if kind == "corpus" else microseconds_a_token
        print(json.dumps(measure(*map(int, numbers))))
        return
    lengths = (16, 64, 256) if options.quick else (16, 64, 256, 1024)
    batches = (32, 128) if options.quick else (32, 128, 512, 2048)
    vocabularies = (2000, 8000) if options.quick else (2000, 8000, 32000)
    most = 100_000 if options.quick else options.pairs
    pairs = [10**power for power in range(4, 8) if 10**power <= most]
    rows = [
        *grown("step", [(f"length {each}", (2048 // each, each)) for each in lengths]),
        *grown("step", [(f"batch {each} x 16", (each, 16)) for each in batches]),
        *grown("step", [(f"vocabulary {each}", (128, 16, each)) for each in vocabularies]),
        *grown("corpus", [(f"{each:,} pairs", (each,)) for each in pairs]),
    ]
    print(
        as_json(rows) if options.json else show(rows, "time: microseconds a token; memory: GB; built: seconds")
    )


if __name__ == "__main__":
    main()
