"""Token reduction on packed batches by the kernels: removed tokens cost nothing.

The plain reference is `regard.nn.token_reduction`, on padded batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from regard.engine.library import data_ptr, library, refuse_second_order
from regard.engine.plan import Stack
from regard.engine.stack import StackSpec, run_stack
from regard.nn import Packed
from regard.nn.token_reduction import Merging, Pruning


@dataclass(frozen=True)
class PackedTokens:
    """The remaining tokens, in order, and how they map to the input tokens."""

    tokens: Packed
    """(tokens, d_model)."""
    size: Tensor | None = None
    """(tokens,): number of input tokens that each one represents; None: 1 each."""
    index: Tensor | None = None
    """(input tokens,): index of the token that represents each input token, -1 for none; None: its own."""

    @property
    def x(self) -> Tensor:
        return self.tokens.values

    @property
    def first_tokens(self) -> Tensor:
        """Index of the first token of each sequence."""
        return self.tokens.offsets[:-1].long()

    @property
    def bias(self) -> Tensor | None:
        """log(size), added to the scores of each key: a token is weighted by its size."""
        return None if self.size is None else self.size.log()

    def unmerged(self) -> Tensor:
        """The vector that represents each input token, zeros if dropped: (input tokens, d_model)."""
        if self.index is None:
            return self.x
        vectors = self.x.index_select(0, self.index.clamp(min=0))
        return vectors.masked_fill((self.index < 0).unsqueeze(1), 0.0)

    def means(self) -> Tensor:
        """Mean of each sequence, tokens weighted by their size: (sequences, d_model)."""
        lengths = self.tokens.lengths
        size = self.x.new_ones(len(self.x)) if self.size is None else self.size
        number = torch.arange(len(lengths)).repeat_interleave(lengths)
        total = size.new_zeros(len(lengths)).index_add(0, number, size)
        weighted = self.x * (size / total.index_select(0, number)).unsqueeze(1)
        return self.x.new_zeros(len(lengths), self.x.size(1)).index_add(0, number, weighted)


@dataclass(frozen=True)
class Stats:
    """Mean keys (tokens, size) and attention received (tokens,), 1 on average, of a self-attention sublayer."""

    keys: Tensor
    received: Tensor


def reduce_packed(
    stack: Stack, embedded: Packed, reducer: Merging | Pruning, *, first_only: bool
) -> PackedTokens:
    """Run encoder blocks, with token reduction in each.

    Args:
        stack: Encoder blocks; the caller applies a final norm.
        embedded: (tokens, d_model).
        reducer: `Merging` or `Pruning`.
        first_only: The last block computes only the first token of each sequence: x is (sequences, d_model).
    """
    tokens = PackedTokens(embedded)
    for number, (attention, _) in enumerate(stack.blocks):
        dropout = stack.dropout if number == 0 else 0
        attend = StackSpec().add(stack, dropout, slice(2 * number, 2 * number + 1))
        feed_forward = StackSpec().add(stack, 0, slice(2 * number + 1, 2 * number + 2))
        offsets = tokens.tokens.offsets
        if first_only and number + 1 == len(stack.blocks):
            block = StackSpec().add(stack, dropout, slice(2 * number, 2 * number + 2))
            x, *_ = run_stack(
                block,
                tokens.x,
                offsets,
                selected=offsets[:-1].contiguous(),
                selected_offsets=torch.arange(len(offsets), dtype=torch.int32),
                key_bias=tokens.bias,
            )
            return replace(tokens, tokens=Packed(x, torch.ones_like(tokens.tokens.lengths)))
        reduces = reducer.reduces(number)
        x, received, keys = run_stack(attend, tokens.x, offsets, key_bias=tokens.bias, stats=reduces)
        tokens = replace(tokens, tokens=tokens.tokens.like(x))
        if reduces:
            stats = Stats(keys, received / attention.heads)
            tokens = (
                merge(reducer, number, tokens, stats)
                if isinstance(reducer, Merging)
                else prune(reducer, number, tokens, stats)
            )
        x, *_ = run_stack(feed_forward, tokens.x, tokens.tokens.offsets)
        tokens = replace(tokens, tokens=tokens.tokens.like(x))
    return tokens


def merge(reducer: Merging, layer: int, tokens: PackedTokens, stats: Stats) -> PackedTokens:
    """`Merging.reduce` on packed tokens."""
    sequences = tokens.tokens
    counts = reducer.merge_counts(layer, sequences.lengths)
    if not counts.any():
        return tokens
    target = match(
        stats.keys, sequences, counts, neighbors_only=reducer.neighbors_only, first_stays=reducer.first_stays
    )
    size = tokens.x.new_ones(len(target)) if tokens.size is None else tokens.size
    lengths = sequences.lengths - counts
    total = size.new_zeros(int(lengths.sum())).index_add(0, target, size)
    weight = size / total.index_select(0, target)
    x = weighted_sum(tokens.x.contiguous(), weight, target, sequences.offsets, len(total))
    index = target if tokens.index is None else target.index_select(0, tokens.index)
    return PackedTokens(Packed(x, lengths), total, index)


def prune(reducer: Pruning, layer: int, tokens: PackedTokens, stats: Stats) -> PackedTokens:
    """`Pruning.reduce` on packed tokens."""
    stays = stats.received >= reducer.thresholds[layer]
    stays[tokens.first_tokens] = True
    lengths = tokens.tokens.lengths
    number = torch.arange(len(lengths)).repeat_interleave(lengths)
    remaining = torch.zeros_like(lengths).index_add_(0, number, stays.long())
    position = torch.where(stays, stays.long().cumsum(0) - 1, -1)
    index = position
    if tokens.index is not None:
        index = torch.where(tokens.index < 0, -1, position[tokens.index.clamp(min=0)])
    x = tokens.x.index_select(0, stays.nonzero().squeeze(1))
    return replace(tokens, tokens=Packed(x, remaining), index=index)


def match(
    keys: Tensor, sequences: Packed, counts: Tensor, *, neighbors_only: bool, first_stays: bool
) -> Tensor:
    """`regard.nn.token_reduction.match` on packed keys.

    Args:
        keys: (tokens, size).
        sequences: A packed batch of as many tokens.
        counts: (sequences,), number of pairs to merge.
        neighbors_only: Pair adjacent tokens only.
        first_stays: The first token is not merged.

    Returns:
        (tokens,), the index of the remaining token.

    Raises:
        ValueError: The sequences do not match the keys, or more than half of the tokens are to be merged.
    """
    if len(keys) != int(sequences.lengths.sum()):
        raise ValueError(f"{len(keys)} keys for sequences of {int(sequences.lengths.sum())} tokens")
    if int((counts > (sequences.lengths + 1) // 2).sum()):
        raise ValueError("at most half of the tokens of a sequence can be merged in one layer")
    keys, counts, offsets = keys.contiguous(), counts.contiguous(), sequences.offsets
    target = torch.empty(len(keys), dtype=torch.int64)
    library().match_tokens(
        *(data_ptr(keys), data_ptr(offsets), len(counts), keys.size(1), data_ptr(counts)),
        *(neighbors_only, first_stays, data_ptr(target)),
    )
    return target


@torch.library.custom_op("regard::weighted_sum", mutates_args=())
def weighted_sum(x: Tensor, weight: Tensor, target: Tensor, offsets: Tensor, count: int) -> Tensor:
    """Weighted sum of the rows x (tokens, width) with the same target: (count, width)."""
    out = x.new_zeros(count, x.size(1))
    library().sum_rows(*map(data_ptr, (x, weight, target, offsets)), len(offsets) - 1, x.size(1), data_ptr(out))
    return out


@weighted_sum.register_fake
def _(x: Tensor, weight: Tensor, target: Tensor, offsets: Tensor, count: int) -> Tensor:
    return x.new_empty(count, x.size(1))


def _save_weights(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1], inputs[2])


@refuse_second_order
def _weighted_sum_gradient(ctx: Any, upstream: Tensor) -> Sequence[Tensor | None]:
    weight, target = ctx.saved_tensors
    return cast(Tensor, upstream.index_select(0, target) * weight.unsqueeze(1)), None, None, None, None


weighted_sum.register_autograd(_weighted_sum_gradient, setup_context=_save_weights)
