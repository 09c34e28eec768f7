"""Chance that falls the same way on every machine."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Weighted(Generic[Item]):
    """Items with weights, summed up once because they are drawn from often."""

    def __init__(self, *entries: tuple[float, Item]) -> None:
        self.items = tuple(item for _, item in entries)
        self.bounds = tuple(accumulate(weight for weight, _ in entries))


class Dice:
    """A seeded source of choices; it uses only `Random.random`, whose sequence Python guarantees."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items, each as likely as the others."""
        return items[int(self._random() * len(items))]

    def weighted(self, table: Weighted[Item]) -> Item:
        """One of the items, each as likely as its weight among all the weights."""
        return table.items[bisect_right(table.bounds, self._random() * table.bounds[-1])]

    def rng(self, probability: float) -> bool:
        """True as often as the probability says."""
        return self._random() < probability
