"""The parallel corpus of a recipe: training, validation and test pairs from files or a named data set."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path

from regard.config.data import PairDataConfig
from regard.data import catalog
from regard.data.corpus import Pair, read_pairs
from regard.data.filters import FilterLimits, FilterReport, filter_pairs
from regard.data.spool import PairSpool
from regard.errors import RegardError
from regard.storage import cache_folder

BUCKETS = 1 << 20
"""Hash buckets of source sentences, from which the held-out pairs are chosen."""

MAX_HELD_OUT = 0.05
"""Largest fraction of the pairs that is held out for validation, and again for the test."""

Splits = Callable[[str], Iterable[Pair]]
"""Function from the name of a split to its pairs, read from the beginning."""


class ParallelCorpus:
    """Training pairs that can be iterated repeatedly; validation and test pairs in memory.

    Every file is read once; later iterations read a copy (`PairSpool`).

    Args:
        data: The recipe's data section.
        count: Number of pairs in the training file, if another process counted them. Then `train` reads the
            corpus itself whenever it is called, nothing else is read, and `valid` and `test` are empty.
    """

    def __init__(self, data: PairDataConfig, count: int | None = None) -> None:
        self.data = data
        self.report = FilterReport()
        self.valid: list[Pair] = []
        self.test: list[Pair] = []
        read = named_splits(data) if data.corpus != "files" else file_splits(data)
        self._copy = copy = PairSpool(partial(read, "train"), cache_folder() / "stores")
        held_out = held_out_splits(data)
        self._read_train: Callable[[], Iterable[Pair]]
        if count is None:
            self._read_train, self.count = (lambda: copy), copy.count() if held_out else 0
        else:
            self._read_train, self.count = partial(read, "train"), count
        self._split_of = splitter(held_out, data.held_out, self.count)
        if count is None:
            self._read_valid_and_test(read, held_out)

    def _read_valid_and_test(self, read: Splits, held_out: list[str]) -> None:
        splits: dict[str, list[Pair]] = {name: [] for name in held_out}
        for pair in self._copy if held_out else ():
            if (split := self._split_of(pair)) != "train":
                splits[split].append(pair)
        self.valid, self.test = (
            list(filter_pairs(splits[name] if name in splits else read(name), FilterLimits(), FilterReport()))
            for name in ("valid", "test")
        )
        if not self.valid or not self.test:
            raise RegardError(
                f"{self.data.source or self.data.corpus}: too few pairs to hold some out for validation and "
                "test; give files for them (data.valid_source, data.test_source and their targets)"
            )

    def train(self) -> Iterator[Pair]:
        """The training pairs within the recipe's limits; `report` counts the others."""
        self.report = FilterReport()
        limits = FilterLimits(max_length=self.data.max_length, ratio=self.data.ratio)
        training = (pair for pair in self._read_train() if self._split_of(pair) == "train")
        return islice(filter_pairs(training, limits, self.report), self.data.pairs or None)

    def fingerprint(self) -> str:
        """SHA-256 of the training pairs; fills `report`."""
        digest = sha256()
        for source, target in self.train():
            digest.update(f"{source}\n{target}\n".encode())
        if not self.report.kept:
            raise RegardError(
                f"{self.data.source or self.data.corpus}: no pair is left to train on ({self.report})"
            )
        return digest.hexdigest()

    def close(self) -> None:
        """Remove the copy of the training pairs; they cannot be read afterwards."""
        self._copy.close()


def named_splits(data: PairDataConfig) -> Splits:
    """The splits of a named data set."""

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


def file_splits(data: PairDataConfig) -> Splits:
    """The splits of a user's files."""
    folder = Path(data.path or "")
    files = {
        "train": (data.source, data.target),
        "valid": (data.valid_source, data.valid_target),
        "test": (data.test_source, data.test_target),
    }

    def read(split: str) -> Iterator[Pair]:
        source, target = files[split]
        assert source is not None
        return read_pairs(
            folder / source,
            None if target is None else folder / target,
            source_column=data.source_column,
            target_column=data.target_column,
        )

    return read


def held_out_splits(data: PairDataConfig) -> list[str]:
    """The splits without a file, which are taken from the training pairs."""
    files = {"valid": data.valid_source, "test": data.test_source}
    return [name for name, source in files.items() if source is None and data.corpus == "files"]


def splitter(held_out: list[str], size: int, count: int) -> Callable[[Pair], str]:
    """A function from a pair to its split; each held-out split gets about `size` of the `count` pairs."""
    share = min(size / count, MAX_HELD_OUT) if count else 0.0

    def split_of(pair: Pair) -> str:
        # by the source sentence, so that all its translations are in one split and none leaks
        bucket = zlib.crc32(pair[0].encode()) % BUCKETS / BUCKETS
        index = int(bucket / share)
        return held_out[index] if index < len(held_out) else "train"

    return split_of if held_out and share else lambda pair: "train"
