"""Fewer tokens while they pass the blocks: what is left of them, by merging or by pruning.

Texts and images alike lie end to end, so that what is gone costs nothing, however much of each is gone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from regard.attention import Apart, Ends, Noted
from regard.layers.blocks import Blocks, EncoderBlock

Walked = tuple[tuple[Tensor, Tensor], ...]
"""For each block, how many tokens of each sentence looked, and how many of them were thought about."""


@dataclass(frozen=True)
class Left:
    """The tokens that are left, in order, and what became of those that were there first."""

    x: Tensor  # (tokens, d_model)
    ends: Ends
    size: Tensor | None = None
    """(tokens,): how many of the first tokens each stands for; None: for itself."""
    into: Tensor | None = None
    """(first tokens,): which of the tokens left each became, -1 for none; None: nothing has changed."""
    walked: Walked = ()

    @property
    def bias(self) -> Tensor | None:
        """A token that stands for several counts as so many: log(size) on its scores (Bolya et al. 2023)."""
        return None if self.size is None else self.size.log()

    @property
    def firsts(self) -> Tensor:
        """Where the first token of each sentence stands."""
        return self.ends.start[:-1].long()

    def unmerged(self) -> Tensor:
        """A vector for each of the first tokens: that of the token it became, zeros if it was dropped."""
        if self.into is None:
            return self.x
        found = self.x.index_select(0, self.into.clamp(min=0))
        return found.masked_fill((self.into < 0).unsqueeze(1), 0.0)

    def means(self) -> Tensor:
        """The mean of each sentence, tokens counted as often as they stand for others: (sentences, d_model)."""
        size = self.x.new_ones(len(self.x)) if self.size is None else self.size
        number = torch.arange(len(self.ends.lengths), device=size.device).repeat_interleave(self.ends.lengths)
        total = size.new_zeros(len(self.ends.lengths)).index_add(0, number, size)
        weighed = self.x * (size / total.index_select(0, number)).unsqueeze(1)
        return self.x.new_zeros(len(total), self.x.size(1)).index_add(0, number, weighed)


class Reducer(Protocol):
    """Makes tokens fewer between the two halves of a block."""

    def reduces(self, layer: int) -> bool:
        """Whether anything is to be done in this layer."""

    def reduce(self, layer: int, left: Left, noted: Noted) -> Left: ...


def reduced(blocks: Blocks | Sequence[Any], x: Tensor, ends: Ends, by: Reducer, *, firsts: bool) -> Left:
    """Tokens (tokens, d_model) through all blocks, fewer from block to block.

    With `firsts` only the first token of each sentence is asked for: in the last block no other is computed.
    Blocks of another implementation are called as an `EncoderBlock` is.
    """
    left = Left(x, ends)
    for number, block in enumerate(cast(Iterator[EncoderBlock], blocks)):
        if firsts and number + 1 == len(blocks):
            return only_firsts(block, left)
        apart, looked = Apart(left.ends, left.ends), left.ends.lengths
        noted = Noted() if by.reduces(number) else None
        x = block.self_attention(left.x, may_look=apart, bias=left.bias, noted=noted)
        left = replace(left, x=x)
        if noted is not None:
            left = by.reduce(number, left, noted)
        walked = (*left.walked, (looked, left.ends.lengths))
        left = replace(left, x=block.feed_forward(left.x), walked=walked)
    return left


def only_firsts(block: EncoderBlock, left: Left) -> Left:
    """The last block, for the first tokens: x becomes (sentences, d_model)."""
    ones = Ends(torch.ones_like(left.ends.lengths))
    x = block(left.x, may_look=Apart(ones, left.ends), places=left.firsts, bias=left.bias)
    return replace(left, x=x, walked=(*left.walked, (left.ends.lengths, ones.lengths)))


def kept_share(walked: Walked) -> float:
    """The share of the tokens that is left after a block, mean over all blocks but the last."""
    first = float(walked[0][0].sum())
    shares = [float(after.sum()) / first for _, after in walked[:-1] or walked]
    return sum(shares) / len(shares)


def operations(walked: Walked, d_model: int, d_ff: int, *, firsts: bool) -> float:
    """Floating-point operations of the matrix products in the blocks, a sentence on the mean.

    Projections, scores, mixed values, feed-forward; with `firsts` the last block asks for one token.
    """
    total = 0.0
    for number, (looked, thought) in enumerate(walked):
        keys, after = looked.double(), thought.double()
        queries = after if firsts and number + 1 == len(walked) else keys
        projected = 4 * (keys + queries) * d_model**2
        total += float((projected + 4 * queries * keys * d_model + 4 * after * d_model * d_ff).mean())
    return total
