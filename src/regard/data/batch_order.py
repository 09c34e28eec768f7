"""Deterministic shuffling and batching: the order depends on (seed, epoch) only and resumes at any cursor.

The examples of a part (of a store) are permuted and split into pools; a pool is sorted by length and grouped
into batches, whose order is permuted. The permutation of a whole corpus is never in memory.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

Item = TypeVar("Item")
Batch = TypeVar("Batch", covariant=True)

SAMPLED_POOLS = 4
"""Pools that are batched to estimate how many batches an epoch of a large corpus has."""


@dataclass(frozen=True)
class Cursor:
    """Position of the next batch in the endless sequence of batches."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


class BatchSource(Protocol[Batch]):
    """Examples that are grouped into batches pool by pool."""

    @property
    def seed(self) -> int: ...

    @property
    def pool(self) -> int:
        """Number of examples that are sorted by length together."""

    @property
    def shard(self) -> tuple[int, int]:
        """(rank, world size): which rows of each batch this process gets."""

    def __len__(self) -> int: ...

    def parts(self) -> list[range]:
        """Ranges of examples that are stored together."""

    def batches_of_pool(
        self, indices: np.ndarray, epoch: int, pool: int
    ) -> Sequence[Callable[[int, int], Batch]]:
        """The batches of one pool, not loaded yet: functions of rank and world size."""


def shuffled_batches(source: BatchSource[Batch], cursor: Cursor) -> Iterator[tuple[Batch, Cursor]]:
    """Endless batches from the cursor on, each with the cursor of the next."""
    epoch = cursor.epoch
    while True:
        pools = pools_in_order(source, epoch)
        for pool in range(cursor.pool if epoch == cursor.epoch else 0, len(pools)):
            indices = pool_indices(source, epoch, *pools[pool])
            first = cursor.batch if (epoch, pool) == (cursor.epoch, cursor.pool) else 0
            batches = shuffled_pool(source, indices, epoch, pool)
            for number in range(first, len(batches)):
                last = number + 1 == len(batches)
                following = Cursor(epoch, pool + 1, 0) if last else Cursor(epoch, pool, number + 1)
                if last and pool + 1 == len(pools):
                    following = Cursor(epoch + 1, 0, 0)
                yield batches[number](*source.shard), following
        epoch += 1


def count_batches(source: BatchSource[object]) -> int:
    """Number of batches per epoch; an estimate for a large corpus."""
    firsts = range(0, len(source), source.pool)
    sampled = (
        firsts if len(firsts) <= SAMPLED_POOLS else firsts[:: len(firsts) // SAMPLED_POOLS][:SAMPLED_POOLS]
    )
    pools = [np.arange(first, min(first + source.pool, len(source))) for first in sampled]
    counted = sum(len(source.batches_of_pool(pool, 0, 0)) for pool in pools)
    return round(counted * len(source) / max(1, sum(map(len, pools))))


def pools_in_order(source: BatchSource[object], epoch: int) -> list[tuple[int, int]]:
    """(part, pool of that part) in the order of the epoch; the pools of several parts are shuffled."""
    parts = source.parts()
    pools = [
        (part, number)
        for part, indices in enumerate(parts)
        for number in range(-(-len(indices) // source.pool))
    ]
    if len(parts) <= 1:
        return pools  # each pool is a random sample of the part
    order = np.random.default_rng((source.seed, epoch, len(parts), 3)).permutation(len(pools))
    return [pools[number] for number in order]


def pool_indices(source: BatchSource[object], epoch: int, part: int, number: int) -> np.ndarray:
    """Indices of the examples in one pool of a part, in random order."""
    indices = source.parts()[part]
    order = np.random.default_rng((source.seed, epoch, part)).permutation(len(indices))
    chosen: np.ndarray = indices.start + order[number * source.pool : (number + 1) * source.pool]
    return chosen


def shuffled_pool(
    source: BatchSource[Batch], indices: np.ndarray, epoch: int, pool: int
) -> list[Callable[[int, int], Batch]]:
    """The batches of one pool in random order."""
    batches = source.batches_of_pool(indices, epoch, pool)
    order = np.random.default_rng((source.seed, epoch, pool, 1)).permutation(len(batches))
    return [batches[number] for number in order]


def group_by_tokens(
    items: Sequence[Item], widths: Sequence[int], tokens: int, sentences: int = 0
) -> list[list[Item]]:
    """Group neighbours while the longest times their number is within the budget of `tokens`.

    Args:
        items: What is grouped, sorted by length.
        widths: Length of each item.
        tokens: Most tokens per group, padding included.
        sentences: Items per group; overrides `tokens` unless it is 0.
    """
    groups: list[list[Item]] = []
    width = 0
    for item, item_width in zip(items, widths, strict=True):
        width = max(width, item_width)
        if not groups or is_full(len(groups[-1]), width, tokens, sentences):
            groups.append([])
            width = item_width
        groups[-1].append(item)
    return groups


def is_full(items: int, width: int, tokens: int, sentences: int) -> bool:
    return items >= sentences if sentences else width * (items + 1) > tokens
