"""Growth of time and memory with sentence length, batch size, vocabulary, and corpus size (10^4 to 10^7 pairs).

    python benchmarks/growth.py [--quick] [--json] [--pairs 10000000]

Each case runs in its own process, which reports time and peak memory. Rows: case, ours (the value of the case),
peer (the smallest case of its kind), value (of that case), ratio.
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
from harness.rounds import Row, as_json, format_table
from harness.updates import updates

from regard.config.models import TransformerConfig
from regard.data.batches import Batch, Batches
from regard.data.token_store import open_or_build
from regard.nn import Packed
from regard.nn.build import build
from regard.tasks.translation.config import TranslationTrainConfig
from regard.tokenization import Tokenizer
from regard.training.objectives import Seq2SeqObjective
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
    objective = Seq2SeqObjective(model, Tokenizer.padding, 0.1)
    return updates(model, objective, config.width, TranslationTrainConfig(steps=1), lr=1e-4)


def random_batch(sentences: int, length: int, vocabulary: int = WORDS) -> Batch:
    lengths = torch.full((sentences,), length)
    source, target, labels = (
        Packed(torch.randint(4, vocabulary, (sentences * length,)), lengths) for _ in range(3)
    )
    return Batch(source, target, labels, sentences * length, ())


def microseconds_per_token(sentences: int, length: int, vocabulary: int = WORDS) -> dict[str, float]:
    step, batch = training_step(vocabulary), random_batch(sentences, length, vocabulary)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        step(batch)
        times.append(time.perf_counter() - start)
    return {"time": sorted(times)[2] / batch.tokens * 1e6, "memory": memory()}


def corpus(pairs: int) -> dict[str, float]:
    """Builds a token store of so many pairs and trains from it: seconds, memory, tokens per second."""

    def random_pairs() -> object:
        sampling = np.random.default_rng(1)
        for _ in range(0, pairs, 10_000):
            numbers = sampling.integers(4, WORDS, (10_000, 2, 14))
            lengths = sampling.integers(6, 15, (10_000, 2))
            for sides, side_lengths in zip(numbers.tolist(), lengths.tolist(), strict=True):
                yield tuple(
                    " ".join(map(TABLE.__getitem__, ids[:n]))
                    for ids, n in zip(sides, side_lengths, strict=True)
                )

    def encode(texts: list[str]) -> list[list[int]]:
        return [[int(word[1:]) for word in text.split(" ")] for text in texts]

    with tempfile.TemporaryDirectory() as folder, training_process():
        start = time.perf_counter()
        store = open_or_build(Path(folder) / "store", random_pairs, encode, encode, (WORDS, WORDS))  # type: ignore[arg-type]
        build_seconds, build_memory = time.perf_counter() - start, memory()
        step, start = training_step(), time.perf_counter()
        batches = Batches(store, tokens=2048)
        batches.batches_per_epoch()
        stream = batches.stream()
        step(next(stream)[0])
        first_step = time.perf_counter() - start
        tokens, start = 0, time.perf_counter()
        while time.perf_counter() - start < 15:
            batch, _ = next(stream)
            step(batch)
            tokens += batch.tokens
        speed = tokens / (time.perf_counter() - start)
    return {
        "built": build_seconds,
        "memory": build_memory,
        "first step": first_step,
        "tokens per second": speed,
    }


def run_in_process(kind: str, *numbers: int) -> dict[str, float]:
    printed = subprocess.run(
        [sys.executable, __file__, "--case", kind, *map(str, numbers)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    values: dict[str, float] = json.loads(printed.splitlines()[-1])
    return values


def growth_rows(kind: str, cases: list[tuple[str, tuple[int, ...]]]) -> list[Row]:
    """A row for each case and measurement, compared with the first case."""
    rows: list[Row] = []
    first: dict[str, float] = {}
    for name, numbers in cases:
        values = run_in_process(kind, *numbers)
        first = first or values
        for what, value in values.items():
            ratio = value / first[what]
            rows.append(Row(f"{name}: {what}", value, cases[0][0], first[what], ratio))
            print(f"{name}: {what} {value:,.3f} ({ratio:.2f} times)", file=sys.stderr)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller cases: about a minute")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--pairs", type=int, default=10**7, help="pairs in the largest corpus")
    parser.add_argument("--case", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        kind, *numbers = options.case
        measure = corpus if kind == "corpus" else microseconds_per_token
        print(json.dumps(measure(*map(int, numbers))))
        return
    lengths = (16, 64, 256) if options.quick else (16, 64, 256, 1024)
    batches = (32, 128) if options.quick else (32, 128, 512, 2048)
    vocabularies = (2000, 8000) if options.quick else (2000, 8000, 32000)
    max_pairs = 100_000 if options.quick else options.pairs
    pairs = [10**power for power in range(4, 8) if 10**power <= max_pairs]
    rows = [
        *growth_rows("step", [(f"length {length}", (2048 // length, length)) for length in lengths]),
        *growth_rows("step", [(f"batch {size} x 16", (size, 16)) for size in batches]),
        *growth_rows("step", [(f"vocabulary {size}", (128, 16, size)) for size in vocabularies]),
        *growth_rows("corpus", [(f"{count:,} pairs", (count,)) for count in pairs]),
    ]
    print(
        as_json(rows)
        if options.json
        else format_table(rows, "time: microseconds per token; memory: GB; built: seconds")
    )


if __name__ == "__main__":
    main()
