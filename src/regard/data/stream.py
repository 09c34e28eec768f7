"""The order in which examples come: mixed anew in each epoch, by (seed, epoch) alone; it can go on anywhere."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

Item = TypeVar("Item")
Made = TypeVar("Made", covariant=True)

COUNTED = 4
"""Pools of a large corpus that are cut to tell how many batches an epoch has."""


@dataclass(frozen=True)
class Cursor:
    """A place in the endless stream of batches: the next one to come."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


class Cuttable(Protocol[Made]):
    """Examples that can be cut into batches, pool by pool."""

    @property
    def seed(self) -> int: ...

    @property
    def pool(self) -> int:
        """How many examples are sorted by length at a time."""

    @property
    def share(self) -> tuple[int, int]:
        """Of every batch the rows of process `share[0]` of `share[1]`."""

    def __len__(self) -> int: ...

    def parts(self) -> list[range]:
        """The numbers of the examples that lie together."""

    def cut(self, members: np.ndarray, epoch: int, pool: int) -> Sequence[Callable[[int, int], Made]]:
        """These examples as batches that are not laid out yet: functions of process and processes."""


def stream(examples: Cuttable[Made], cursor: Cursor) -> Iterator[tuple[Made, Cursor]]:
    """Batches from the cursor on, without end, each with the cursor of the one after it."""
    epoch = cursor.epoch
    while True:
        pools = pools_of(examples, epoch)
        for pool in range(cursor.pool if epoch == cursor.epoch else 0, len(pools)):
            members = members_of(examples, epoch, *pools[pool])
            done = cursor.batch if (epoch, pool) == (cursor.epoch, cursor.pool) else 0
            batches = mixed(examples, members, epoch, pool)
            for number in range(done, len(batches)):
                last = number + 1 == len(batches)
                after = Cursor(epoch, pool + 1, 0) if last else Cursor(epoch, pool, number + 1)
                if last and pool + 1 == len(pools):
                    after = Cursor(epoch + 1, 0, 0)
                yield batches[number](*examples.share), after
        epoch += 1


def per_epoch(examples: Cuttable[object]) -> int:
    """How many batches an epoch has; in a large corpus, about how many."""
    firsts = range(0, len(examples), examples.pool)
    some = firsts if len(firsts) <= COUNTED else firsts[:: len(firsts) // COUNTED][:COUNTED]
    pools = [np.arange(first, min(first + examples.pool, len(examples))) for first in some]
    counted = sum(len(examples.cut(pool, 0, 0)) for pool in pools)
    return round(counted * len(examples) / max(1, sum(map(len, pools))))


def pools_of(examples: Cuttable[object], epoch: int) -> list[tuple[int, int]]:
    """Part of the examples, and which pool of it: those of several parts are mixed."""
    parts = examples.parts()
    pools = [
        (part, number)
        for part, members in enumerate(parts)
        for number in range(-(-len(members) // examples.pool))
    ]
    if len(parts) <= 1:
        return pools  # random as they are
    order = np.random.default_rng((examples.seed, epoch, len(parts), 3)).permutation(len(pools))
    return [pools[number] for number in order]


def members_of(examples: Cuttable[object], epoch: int, part: int, number: int) -> np.ndarray:
    """The examples of one pool, drawn from one part: no memory is taken for the order of a whole corpus."""
    members = examples.parts()[part]
    order = np.random.default_rng((examples.seed, epoch, part)).permutation(len(members))
    chosen: np.ndarray = members.start + order[number * examples.pool : (number + 1) * examples.pool]
    return chosen


def mixed(
    examples: Cuttable[Made], members: np.ndarray, epoch: int, pool: int
) -> list[Callable[[int, int], Made]]:
    """The batches of one pool, in an order of chance."""
    batches = examples.cut(members, epoch, pool)
    order = np.random.default_rng((examples.seed, epoch, pool, 1)).permutation(len(batches))
    return [batches[number] for number in order]


def by_budget(
    items: Sequence[Item], widths: Sequence[int], tokens: int, sentences: int = 0
) -> list[list[Item]]:
    """Neighbours together, until the widest of them times their number is the budget."""
    groups: list[list[Item]] = []
    width = 0
    for item, needed in zip(items, widths, strict=True):
        width = max(width, needed)
        if not groups or is_full(len(groups[-1]), width, tokens, sentences):
            groups.append([])
            width = needed
        groups[-1].append(item)
    return groups


def is_full(members: int, width: int, tokens: int, sentences: int) -> bool:
    return members >= sentences if sentences else width * (members + 1) > tokens
