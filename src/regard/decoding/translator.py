"""Text in, text out, line for line: files of any size in constant memory."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import nn

from regard.decoding.limits import Limits
from regard.decoding.sampling import sample
from regard.decoding.search import Hypothesis, Options, search
from regard.models.interface import Decodable
from regard.text import Tokenizer

WINDOW = 2048
"""Lines read ahead: enough to find sentences of the same length, few enough to hold."""


@dataclass(frozen=True)
class Translation:
    """A translated text and what the model thinks of it; `others` are the next best."""

    source: str
    text: str
    score: float
    others: tuple["Translation", ...] = ()


class Translator:
    """A model with its two vocabularies."""

    def __init__(self, model: nn.Module, source: Tokenizer, target: Tokenizer, longest: int = 256) -> None:
        self.model: Decodable = model  # type: ignore[assignment]  # a module gains `start` and `step` by its class
        self.source, self.target = source, target
        self.longest = longest
        self.device = next(model.parameters()).device

    def translate(
        self,
        texts: Sequence[str],
        options: Options | None = None,
        *,
        batch_size: int = 64,
        prefixes: Sequence[str] | None = None,
        seed: int | None = None,
        temperature: float = 1.0,
    ) -> list[Translation]:
        """The translation of each text; with a seed it is drawn by chance instead of searched for."""
        options = options or Options()
        encoded = self.source.encode_batch(list(texts))
        demanded = self.target.encode_batch(list(prefixes)) if prefixes else [[] for _ in texts]
        found: dict[int, list[Hypothesis]] = {}
        for numbers in same_length(encoded, batch_size):
            batch = self.ids([encoded[number] for number in numbers])
            if seed is None:
                results = search(
                    self.model, batch, self.limits(options), options, [demanded[number] for number in numbers]
                )
            else:
                seeds = [seed + number for number in numbers]
                drawn = sample(self.model, batch, self.limits(options), seeds=seeds, temperature=temperature)
                results = [[each] for each in drawn]
            found.update(zip(numbers, results, strict=True))
        return [self.worded(text, found.get(number, [])) for number, text in enumerate(texts)]

    def stream(
        self,
        lines: Iterable[str],
        options: Options | None = None,
        *,
        batch_size: int = 64,
        window: int = WINDOW,
    ) -> Iterator[Translation]:
        """Translations of any number of lines, in order; only a window of them is held at a time."""
        source = iter(lines)
        while chunk := list(islice(source, window)):
            yield from self.translate(chunk, options, batch_size=batch_size)

    def limits(self, options: Options) -> Limits:
        never = (self.target.begin, self.target.padding, self.target.unknown)
        return Limits(self.target.begin, self.target.end, never, options.no_repeat)

    def ids(self, encoded: list[list[int]]) -> torch.Tensor:
        """Source ids with their end, cut to what the model has places for: (batch, length)."""
        rows = [[*ids[: self.longest - 1], self.source.end] for ids in encoded]
        return torch.tensor(rows, device=self.device)

    def too_long(self, text: str) -> int | None:
        """How many tokens the text has, if that is more than the model has places for."""
        tokens = len(self.source.encode(text)) + 1
        return tokens if tokens > self.longest else None

    def worded(self, text: str, found: list[Hypothesis]) -> Translation:
        if not found:
            return Translation(text, "", 0.0)
        best, *others = (
            Translation(text, decoded, each.score)
            for each, decoded in zip(found, self.target.decode_batch([each.ids for each in found]), strict=True)
        )
        return Translation(text, best.text, best.score, tuple(others))


def same_length(encoded: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    """Numbers of sentences in batches of one length each; empty sentences are left out."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, ids in enumerate(encoded):
        if ids:
            by_length[len(ids)].append(number)
    for length in sorted(by_length):
        numbers = by_length[length]
        for first in range(0, len(numbers), batch_size):
            yield numbers[first : first + batch_size]
