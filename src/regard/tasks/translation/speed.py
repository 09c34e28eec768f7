"""Decoding speed of a translation run on the user's sentences."""

import statistics
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from regard.data.corpus import read_lines
from regard.errors import RegardError
from regard.tasks.timing import timed_rounds
from regard.tasks.translation.model import Translator

CASES = ((1, 1), (1, 5), (64, 1), (64, 5))
"""Batch size and beam size. With a batch size of 1 each sentence waits for the one before it."""
SENTENCES = {1: 32, 64: 512}
"""Most sentences in a round, by batch size."""


@dataclass(frozen=True)
class CaseSpeed:
    """Speed with one batch size and beam size."""

    batch_size: int
    beam: int
    sentences_per_second: float


@dataclass(frozen=True)
class DecodingSpeed:
    """The result of `regard bench speed RUN --source FILE`."""

    run: str
    sentences: int
    threads: int
    cases: list[CaseSpeed]

    def as_text(self) -> str:
        lines = [f"{self.run}: {self.sentences:,} sentences, {self.threads} threads"]
        lines += [
            f"batch {case.batch_size:2}, beam {case.beam}: "
            f"{case.sentences_per_second:9,.1f} sentences per second"
            for case in self.cases
        ]
        return "\n".join(lines)


def decoding_speed(run: Path, source: Path, *, quick: bool = False) -> DecodingSpeed:
    """Median speed over interleaved rounds, tokenization included.

    Raises:
        RegardError: The run does not translate, or the file has no sentences.
    """
    loaded = Translator.load(run)
    loaded.pipeline.freeze()
    lines = [line for line in read_lines(source) if line.strip()]
    if not lines:
        raise RegardError(f"{source} has no sentences")

    def translate(batch_size: int, beam: int) -> None:
        options = loaded.options(beam)
        sentences = lines[: SENTENCES[batch_size]]
        for first in range(0, len(sentences), batch_size):
            loaded.pipeline.translate(sentences[first : first + batch_size], options, batch_size=batch_size)

    times = timed_rounds([partial(translate, *case) for case in CASES], 3 if quick else 7)
    cases = [
        CaseSpeed(batch_size, beam, min(len(lines), SENTENCES[batch_size]) / statistics.median(seconds))
        for (batch_size, beam), seconds in zip(CASES, times, strict=True)
    ]
    return DecodingSpeed(str(run), len(lines), torch.get_num_threads(), cases)
