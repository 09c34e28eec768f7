"""What a model and its export answered to the same inputs."""

from dataclasses import dataclass

MOST = 200
"""Sentences, texts or images that an export is checked with."""


@dataclass(frozen=True)
class Check:
    """What a model and its export said to the same sentences."""

    engine: str
    sentences: int
    same: dict[str, int]
    """How many of the answers are the same: greedily, with a beam."""
    of: str
    """What the largest difference is one of."""
    difference: float
