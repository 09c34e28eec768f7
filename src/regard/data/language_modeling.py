"""Language-model examples: the tokens of a text in windows of equal length, without padding."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from regard.data.examples import Example
from regard.data.text_files import CorpusError, numbered_lines
from regard.data.token_store import TokenStore

CHUNK = 1000
"""Approximate number of characters that are tokenized at a time, in whole lines."""


@dataclass(frozen=True)
class TextRange:
    """A range of characters of a file, plain or .gz; lines end in a newline."""

    path: Path
    begin: int
    end: int
    bytes: int
    """Size of the range in UTF-8."""
    fingerprint: str

    @staticmethod
    def of_file(path: Path) -> "TextRange":
        """The whole file."""
        if not any(chunk.strip() for chunk in chunks(path, 0, None)):
            raise CorpusError(f"{path} holds no text")
        return measured_range(path, 0, None)

    def split(self, fraction: float) -> tuple["TextRange", "TextRange"]:
        """The beginning, and the last `fraction`."""
        boundary = self.begin + int((self.end - self.begin) * (1 - fraction))
        if boundary in (self.begin, self.end):
            raise CorpusError(
                f"{self.path}: too short to hold some out for validation; give a file (data.valid=...)"
            )
        return measured_range(self.path, self.begin, boundary), measured_range(self.path, boundary, self.end)

    def __len__(self) -> int:
        return self.end - self.begin

    def __iter__(self) -> Iterator[str]:
        return chunks(self.path, self.begin, self.end)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Pairs for a token store; the second side is empty."""
        return ((chunk, "") for chunk in self)


def measured_range(path: Path, begin: int, end: int | None) -> TextRange:
    """The range with its size and fingerprint, for which it is read once."""
    characters = size = 0
    digest = hashlib.sha256()
    for chunk in chunks(path, begin, end):
        raw = chunk.encode()
        digest.update(raw)
        characters += len(chunk)
        size += len(raw)
    return TextRange(path, begin, begin + characters, size, digest.hexdigest())


def chunks(path: Path, begin: int, end: int | None) -> Iterator[str]:
    """The characters from `begin` to `end` in chunks of whole lines."""
    position, buffer = 0, ""
    for _, line in numbered_lines(path):
        first, position = position, position + len(line) + 1
        if position <= begin:
            continue
        if end is not None and first >= end:
            break
        buffer += f"{line}\n"[max(0, begin - first) : None if end is None else end - first]
        if len(buffer) >= CHUNK:
            yield buffer
            buffer = ""
    if buffer:
        yield buffer


class TokenWindows:
    """Examples of `length` tokens each, with the next token as the label of each position.

    Windows are consecutive; their common offset is random and differs between calls of `load`.
    """

    def __init__(self, store: TokenStore, length: int) -> None:
        self.store, self.length = store, length
        self.rows = [np.asarray(store.source.flat(part)) for part in store.parts()]
        self.tokens = sum(map(len, self.rows))
        self.boundaries = np.cumsum([0, *(max(0, len(row) - 1) // length for row in self.rows)]).tolist()

    def __len__(self) -> int:
        return int(self.boundaries[-1])

    def parts(self) -> list[range]:
        """Ranges of the windows in each part of the store."""
        return [range(*boundaries) for boundaries in pairwise(self.boundaries)]

    def load(self, indices: np.ndarray, rng: np.random.Generator) -> list[Example]:
        shift = int(rng.integers(self.length))
        parts = np.searchsorted(self.boundaries, indices, side="right") - 1
        return [self.window(int(index), int(part), shift) for index, part in zip(indices, parts, strict=True)]

    def window(self, index: int, part: int, shift: int) -> Example:
        row = self.rows[part]
        begin = min((index - self.boundaries[part]) * self.length + shift, len(row) - 1 - self.length)
        return example(index, row, begin, self.length)

    def non_overlapping(self) -> Iterator[Example]:
        """Windows that predict every token but the first of a part once; the last may be shorter."""
        number = 0
        for row in self.rows:
            for begin in range(0, len(row) - 1, self.length):
                yield example(number, row, begin, min(self.length, len(row) - 1 - begin))
                number += 1


def example(number: int, row: np.ndarray, begin: int, length: int) -> Example:
    """A window of a token row, labelled with the tokens one position later; views, not copies."""
    return Example(number, row[begin : begin + length], length, (), row[begin + 1 : begin + 1 + length])
