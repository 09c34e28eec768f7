"""Sentences a second that a translation run decodes, on sentences of the user."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from regard.bench.rounds import timed_rounds
from regard.data.corpus import read_lines
from regard.errors import RegardError
from regard.tasks.translation.model import Translator

CASES = ((1, 1), (1, 5), (64, 1), (64, 5))
"""Sentences in a call, and beam size. One: each waits for the one before it, as when somebody types."""
SENTENCES = {1: 32, 64: 512}
"""Sentences in a round, at most."""


@dataclass(frozen=True)
class Case:
    """Speed of one batch size and beam size."""

    batch_size: int
    beam: int
    sentences_per_second: float


@dataclass(frozen=True)
class DecodingSpeed:
    """What `regard bench speed RUN --source FILE` measured."""

    run: str
    sentences: int
    threads: int
    cases: list[Case]

    def as_text(self) -> str:
        lines = [f"{self.run}: {self.sentences:,} sentences, {self.threads} threads"]
        lines += [
            f"batch {case.batch_size:2}, beam {case.beam}: {case.sentences_per_second:9,.1f} sentences a second"
            for case in self.cases
        ]
        return "\n".join(lines)


def decoding_speed(run: Path, source: Path, *, quick: bool = False) -> DecodingSpeed:
    """Median speed over interleaved rounds, tokenization included.

    Raises:
        RegardError: the run does not translate, or the file holds no sentence.
    """
    loaded = Translator.load(run)
    loaded.pipeline.freeze()
    lines = [line for line in read_lines(source) if line.strip()]
    if not lines:
        raise RegardError(f"{source}: there is no sentence in this file")

    def translate(batch_size: int, beam: int) -> None:
        options = loaded.options(beam)
        some = lines[: SENTENCES[batch_size]]
        for first in range(0, len(some), batch_size):
            loaded.pipeline.translate(some[first : first + batch_size], options, batch_size=batch_size)

    works: list[Callable[[], object]] = [partial(translate, *case) for case in CASES]
    times = timed_rounds(works, 3 if quick else 7)
    cases = [
        Case(batch_size, beam, min(len(lines), SENTENCES[batch_size]) / statistics.median(seconds))
        for (batch_size, beam), seconds in zip(CASES, times, strict=True)
    ]
    return DecodingSpeed(str(run), len(lines), torch.get_num_threads(), cases)
