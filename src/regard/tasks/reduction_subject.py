"""A run on which token reduction is measured: one that labels images or texts, or tags words."""

from typing import Any, Protocol, cast

from torch import Tensor

from regard.nn import Merging, Pruning, Reducer, TokenCounts
from regard.nn.bert import Bert
from regard.nn.vit import Vit

TIMED = 4096
"""Tokens in a turn, about."""


class Subject(Protocol):
    """What is measured of a run, whether it reads texts or images."""

    body: Any
    """The `Bert` or `Vit` whose tokens are reduced."""
    config: Any
    score_name: str
    examples: int
    length: float
    """Mean number of tokens of an example."""
    timed: int
    """Examples in a turn."""
    first_only: bool
    """Whether only the first token is read at the end."""
    neighbours_only: bool
    """Whether a token is merged with its neighbours only."""

    def score(self, by: Reducer) -> float: ...
    def run(self, by: Reducer) -> object:
        """The forward pass that is timed."""

    def token_counts(self, by: Reducer) -> TokenCounts:
        """Tokens of each example, block by block."""

    def tokens(self) -> Tensor:
        """Embedded tokens of real examples, (tokens, d_model)."""


def spread(count: int, most: int) -> slice:
    """About `most` of `count` examples, evenly spread."""
    return slice(None, None, max(1, -(-count // most)) if most else 1)


def set_reduction(body: Bert | Vit, by: Reducer) -> None:
    """Reduce by this; nothing to merge is the plain forward pass, the reference of all others."""
    chosen = cast(Merging | Pruning, by)
    body.reduction = None if isinstance(chosen, Merging) and not any(chosen.amounts) else chosen
