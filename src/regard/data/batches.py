"""Batches of similar length, in an order that depends on (seed, epoch) alone and can be continued anywhere."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.data.store import Side, TokenStore
from regard.text import Tokenizer


@dataclass(frozen=True)
class Batch:
    """Sentence pairs side by side: ids (sentences, length), padded at the end."""

    source: Tensor
    target: Tensor
    """The target shifted right: begins with `<s>`."""
    gold: Tensor
    """The target to predict: ends with `</s>`."""
    tokens: int
    """Gold tokens that are not padding, of the whole batch: also where this is one process's share of it."""
    sentences: tuple[int, ...]
    """Which pairs of the store these are."""

    def to(self, device: torch.device) -> "Batch":
        source, target, gold = (
            each.to(device, non_blocking=True) for each in (self.source, self.target, self.gold)
        )
        return Batch(source, target, gold, self.tokens, self.sentences)

    def stand_in(self) -> "Batch":
        """One pair of nothing but an end, for a process that has no row but must compute with the others."""
        row = torch.full((1, 1), Tokenizer.end)
        return Batch(row, row, row, self.tokens, ())

    def pinned(self) -> "Batch":
        """The same in memory that a GPU can fetch by itself."""
        source, target, gold = (each.pin_memory() for each in (self.source, self.target, self.gold))
        return Batch(source, target, gold, self.tokens, self.sentences)


@dataclass(frozen=True)
class Cursor:
    """A place in the endless stream of batches: the next one to come."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


COUNTED = 4
"""Pools of a large store that are cut to tell how many batches an epoch has."""

Resample = Callable[[list[str], int], list[list[int]]]
"""Texts and a seed to freshly sampled ids (BPE-dropout)."""


@dataclass(frozen=True)
class Batches:
    """How a store is cut: by token budget or by sentences, from pools sorted by length."""

    store: TokenStore
    tokens: int = 4096
    sentences: int = 0
    seed: int = 1
    pool: int = 20_000
    longest: int = 256
    """Sentences with more tokens are cut: the model has no more places."""
    resample: tuple[Resample, Resample] | None = None
    share: tuple[int, int] = (0, 1)
    """Of every batch the rows of process `share[0]` of `share[1]`."""

    def stream(self, cursor: Cursor = Cursor()) -> Iterator[tuple[Batch, Cursor]]:  # noqa: B008
        """Batches from the cursor on, without end, each with the cursor of the one after it."""
        epoch = cursor.epoch
        while True:
            pools = self._pools(epoch)
            for pool in range(cursor.pool if epoch == cursor.epoch else 0, len(pools)):
                members = self._members(epoch, *pools[pool])
                done = cursor.batch if (epoch, pool) == (cursor.epoch, cursor.pool) else 0
                batches = self._cut(members, epoch, pool)
                for number in range(done, len(batches)):
                    last = number + 1 == len(batches)
                    after = Cursor(epoch, pool + 1, 0) if last else Cursor(epoch, pool, number + 1)
                    if last and pool + 1 == len(pools):
                        after = Cursor(epoch + 1, 0, 0)
                    yield batches[number](*self.share), after
            epoch += 1

    def per_epoch(self) -> int:
        """How many batches an epoch has; with BPE-dropout or in a large store, about how many."""
        as_stored = replace(self, resample=None)
        firsts = range(0, len(self.store), self.pool)
        some = firsts if len(firsts) <= COUNTED else firsts[:: len(firsts) // COUNTED][:COUNTED]
        pools = [np.arange(first, min(first + self.pool, len(self.store))) for first in some]
        counted = sum(len(as_stored._cut(pool, 0, 0)) for pool in pools)
        return round(counted * len(self.store) / max(1, sum(map(len, pools))))

    @staticmethod
    def of_pairs(pairs: Sequence[tuple[list[int], list[int]]], tokens: int, longest: int) -> Iterator[Batch]:
        """Every pair of ids once, shortest first: for validation."""
        cut = [(source[: longest - 1], target[: longest - 1]) for source, target in pairs]
        known = [
            _Pair(number, np.array(source), np.array(target)) for number, (source, target) in enumerate(cut)
        ]
        return (make() for make in grouped(known, tokens))

    def _pools(self, epoch: int) -> list[tuple[int, int]]:
        """Part of the store, and which pool of it: those of several parts are mixed."""
        parts = self.store.parts()
        pools = [
            (part, number) for part, pairs in enumerate(parts) for number in range(-(-len(pairs) // self.pool))
        ]
        if len(parts) <= 1:
            return pools  # random as they are
        order = np.random.default_rng((self.seed, epoch, len(parts), 3)).permutation(len(pools))
        return [pools[number] for number in order]

    def _members(self, epoch: int, part: int, number: int) -> np.ndarray:
        """The pairs of one pool, drawn from one part: no memory is taken for the order of a whole corpus."""
        pairs = self.store.parts()[part]
        order = np.random.default_rng((self.seed, epoch, part)).permutation(len(pairs))
        chosen: np.ndarray = pairs.start + order[number * self.pool : (number + 1) * self.pool]
        return chosen

    def _cut(self, members: np.ndarray, epoch: int, pool: int) -> list["_Make"]:
        batches = grouped(self._load(members, epoch, pool), self.tokens, self.sentences)
        order = np.random.default_rng((self.seed, epoch, pool, 1)).permutation(len(batches))
        return [batches[number] for number in order]

    def _load(self, members: np.ndarray, epoch: int, pool: int) -> list["_Pair"]:
        sides = []
        for number, side in enumerate((self.store.source, self.store.target)):
            if self.resample is None:
                ids = [side.sentence(int(member)) for member in members]
            else:
                seed = int(np.random.default_rng((self.seed, epoch, pool, 2, number)).integers(2**62))
                ids = self._sampled(side, members, number, seed)
            sides.append([each[: self.longest - 1] for each in ids])  # one place is for <s> or </s>
        return [_Pair(int(member), *both) for member, *both in zip(members, *sides, strict=True)]

    def _sampled(self, side: Side, members: np.ndarray, number: int, seed: int) -> list[np.ndarray]:
        assert self.resample is not None
        texts = [side.text(int(member)) for member in members]
        return [np.array(each, dtype=np.uint32) for each in self.resample[number](texts, seed)]


@dataclass(frozen=True)
class _Pair:
    member: int
    source: np.ndarray
    target: np.ndarray


def grouped(pairs: list[_Pair], tokens: int, sentences: int = 0) -> list["_Make"]:
    """Neighbours in length together, until the longest of them times their number is the budget."""
    groups: list[list[_Pair]] = []
    width = 0
    for pair in sorted(pairs, key=lambda pair: (len(pair.target), len(pair.source), pair.member)):
        needed = max(len(pair.source), len(pair.target)) + 1
        width = max(width, needed)
        if not groups or is_full(len(groups[-1]), width, tokens, sentences):
            groups.append([])
            width = needed
        groups[-1].append(pair)
    return [_Make(group) for group in groups]


def is_full(members: int, width: int, tokens: int, sentences: int) -> bool:
    return members >= sentences if sentences else width * (members + 1) > tokens


@dataclass(frozen=True)
class _Make:
    """A batch not yet laid out: ids stay where they are until it is its turn."""

    pairs: list[_Pair]

    def __call__(self, rank: int = 0, ranks: int = 1) -> Batch:
        """Every row, or one process's share of them; there may be none for it."""
        begin, end, padding = Tokenizer.begin, Tokenizer.end, Tokenizer.padding
        mine = self.pairs[rank::ranks]
        source = padded([[*pair.source, end] for pair in mine], padding)
        target = padded([[begin, *pair.target] for pair in mine], padding)
        gold = padded([[*pair.target, end] for pair in mine], padding)
        tokens = sum(len(pair.target) + 1 for pair in self.pairs)
        return Batch(source, target, gold, tokens, tuple(pair.member for pair in mine))


def padded(rows: list[list[int]], padding: int) -> Tensor:
    """Lists of ids as one tensor (rows, longest), filled up at the end."""
    table = np.full((len(rows), max(map(len, rows), default=1)), padding, dtype=np.int64)
    for row, ids in enumerate(rows):
        table[row, : len(ids)] = ids
    return torch.from_numpy(table)
