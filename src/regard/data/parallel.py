"""The pairs a recipe speaks of, in three splits, whatever they come from."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path

from regard.config import PairData
from regard.data import catalog
from regard.data.corpus import Pair, read_pairs
from regard.data.filters import Limits, Report, sift
from regard.errors import RegardError

HELD_OUT = 1 << 20
"""Buckets into which pairs are sorted by their source sentence, to hold some out."""


class ParallelCorpus:
    """Training pairs as often as they are wanted; validation and test pairs in memory."""

    def __init__(self, data: PairData) -> None:
        self.data = data
        self.report = Report()
        self._read = named_splits(data) if data.corpus != "files" else file_splits(data)
        self.valid = list(self._sifted("valid", Report()))
        self.test = list(self._sifted("test", Report()))
        if not self.valid or not self.test:
            raise RegardError(
                f"{data.source or data.corpus}: too few pairs to hold some out for validation and test; give "
                "files for them (data.valid_source, data.test_source and their targets)"
            )

    def train(self) -> Iterator[Pair]:
        """The training pairs that are within the recipe's limits; `report` counts the others."""
        self.report = Report()
        return islice(self._sifted("train", self.report), self.data.pairs or None)

    def fingerprint(self) -> str:
        """A digest of the training pairs, and by the way the report of what was dropped."""
        digest = sha256()
        for source, target in self.train():
            digest.update(f"{source}\n{target}\n".encode())
        if not self.report.kept:
            raise RegardError(
                f"{self.data.source or self.data.corpus}: no pair is left to train on ({self.report})"
            )
        return digest.hexdigest()

    def _sifted(self, split: str, report: Report) -> Iterator[Pair]:
        limits = Limits(longest=self.data.longest, ratio=self.data.ratio) if split == "train" else Limits()
        return sift(self._read(split), limits, report)


Splits = Callable[[str], Iterable[Pair]]


def named_splits(data: PairData) -> Splits:
    """A corpus known by name."""

    def read(split: str) -> Iterable[Pair]:
        return catalog.pairs(
            data.corpus,
            split,
            source=data.source_language,
            target=data.target_language,
            path=data.path,
            form=data.form,
        )

    return read


def file_splits(data: PairData) -> Splits:
    """A user's own files; what has no file of its own is held out from the training pairs."""
    folder = Path(data.path or "")

    def read_file(source: str, target: str | None) -> Iterator[Pair]:
        return read_pairs(
            folder / source,
            None if target is None else folder / target,
            source_column=data.source_column,
            target_column=data.target_column,
        )

    def everything() -> Iterator[Pair]:
        assert data.source is not None
        return read_file(data.source, data.target)

    given = {name: getattr(data, f"{name}_source") for name in ("valid", "test")}
    to_hold_out = [name for name, source in given.items() if source is None]
    share = held_out_share(everything(), data.held_out) if to_hold_out else 0.0

    def split_of(pair: Pair) -> str:
        # By the source sentence: its other translations go where it goes, so nothing leaks.
        bucket = zlib.crc32(pair[0].encode()) % HELD_OUT / HELD_OUT
        place = int(bucket / share) if share else len(to_hold_out)
        return to_hold_out[place] if place < len(to_hold_out) else "train"

    def read(split: str) -> Iterator[Pair]:
        if given.get(split):
            return read_file(given[split], getattr(data, f"{split}_target"))
        return (pair for pair in everything() if split_of(pair) == split)

    return read


def held_out_share(pairs: Iterable[Pair], wanted: int) -> float:
    """The share of pairs that makes about the wanted number, and at most a twentieth."""
    count = sum(1 for _ in pairs)
    return min(wanted / count, 0.05) if count else 0.0
