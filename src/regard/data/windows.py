"""Any text as one row of tokens, cut into windows that are full: nothing is padded, nothing left out."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from regard.data.examples import Example
from regard.data.lines import CorpusError, numbered_lines
from regard.data.store import TokenStore

STRETCH = 1000
"""Characters, about, that are turned into tokens at a time: whole lines where lines are short."""


@dataclass(frozen=True)
class RunningText:
    """The characters of a file, plain or .gz, from one place to another; lines end in a newline."""

    path: Path
    begin: int
    end: int
    bytes: int
    """Of these characters in UTF-8."""
    fingerprint: str

    @staticmethod
    def of(path: Path) -> "RunningText":
        """All of a file."""
        if not any(stretch.strip() for stretch in stretches(path, 0, None)):
            raise CorpusError(f"{path} holds no text")
        return measured(path, 0, None)

    def parted(self, share: float) -> tuple["RunningText", "RunningText"]:
        """The beginning, and the last `share` of it."""
        border = self.begin + int((self.end - self.begin) * (1 - share))
        if border in (self.begin, self.end):
            raise CorpusError(
                f"{self.path}: too short a text to hold some out for validation; give a file (data.valid=...)"
            )
        return measured(self.path, self.begin, border), measured(self.path, border, self.end)

    def __len__(self) -> int:
        return self.end - self.begin

    def __iter__(self) -> Iterator[str]:
        return stretches(self.path, self.begin, self.end)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """As a token store takes them; there is nothing beside the text."""
        return ((stretch, "") for stretch in self)


def measured(path: Path, begin: int, end: int | None) -> RunningText:
    """A text with its size and its fingerprint, which asks for reading it once."""
    characters = size = 0
    digest = hashlib.sha256()
    for stretch in stretches(path, begin, end):
        raw = stretch.encode()
        digest.update(raw)
        characters += len(stretch)
        size += len(raw)
    return RunningText(path, begin, begin + characters, size, digest.hexdigest())


def stretches(path: Path, begin: int, end: int | None) -> Iterator[str]:
    """The characters from `begin` to `end` in stretches of whole lines."""
    place, held = 0, ""
    for _, line in numbered_lines(path):
        first, place = place, place + len(line) + 1
        if place <= begin:
            continue
        if end is not None and first >= end:
            break
        held += f"{line}\n"[max(0, begin - first) : None if end is None else end - first]
        if len(held) >= STRETCH:
            yield held
            held = ""
    if held:
        yield held


class Windows:
    """Examples of `length` tokens each, with the token that follows at each place.

    Where a window begins is a matter of chance, anew in each epoch; between them they lie end to end.
    """

    def __init__(self, store: TokenStore, length: int) -> None:
        self.store, self.length = store, length
        self.rows = [np.asarray(store.source.flat(part)) for part in store.parts()]
        self.tokens = sum(map(len, self.rows))
        self.borders = np.cumsum([0, *(max(0, len(row) - 1) // length for row in self.rows)]).tolist()

    def __len__(self) -> int:
        return int(self.borders[-1])

    def parts(self) -> list[range]:
        """The numbers of the windows in one part of the store."""
        return [range(*borders) for borders in pairwise(self.borders)]

    def load(self, members: np.ndarray, rng: np.random.Generator) -> list[Example]:
        shift = int(rng.integers(self.length))
        parts = np.searchsorted(self.borders, members, side="right") - 1
        return [self.window(int(member), int(part), shift) for member, part in zip(members, parts, strict=True)]

    def window(self, member: int, part: int, shift: int) -> Example:
        row = self.rows[part]
        begin = min((member - self.borders[part]) * self.length + shift, len(row) - 1 - self.length)
        return example(member, row, begin, self.length)

    def in_order(self) -> Iterator[Example]:
        """Windows that ask for every token but the first of a part once; the last one may be shorter."""
        number = 0
        for row in self.rows:
            for begin in range(0, len(row) - 1, self.length):
                yield example(number, row, begin, min(self.length, len(row) - 1 - begin))
                number += 1


def example(number: int, row: np.ndarray, begin: int, length: int) -> Example:
    """A window of a row, and the tokens one place further on; views, not copies."""
    return Example(number, row[begin : begin + length], length, (), row[begin + 1 : begin + 1 + length])
