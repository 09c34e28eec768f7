"""Random choices that are the same on every machine."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

Item = TypeVar("Item")


class WeightedItems(Generic[Item]):
    """Items with weights; the cumulative weights are computed once."""

    def __init__(self, *entries: tuple[float, Item]) -> None:
        self.items = tuple(item for _, item in entries)
        self.cumulative_weights = tuple(accumulate(weight for weight, _ in entries))


class Rng:
    """Seeded random generator; it uses only `Random.random`, whose sequence Python guarantees."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random

    def choice(self, items: Sequence[Item]) -> Item:
        """An item, drawn uniformly."""
        return items[int(self._random() * len(items))]

    def weighted_choice(self, items: WeightedItems[Item]) -> Item:
        """An item, drawn with a probability proportional to its weight."""
        return items.items[
            bisect_right(items.cumulative_weights, self._random() * items.cumulative_weights[-1])
        ]

    def bernoulli(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability
