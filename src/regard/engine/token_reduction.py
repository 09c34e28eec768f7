"""Token reduction on packed batches by the kernels: removed tokens cost nothing, whatever their number.

The plain twin is `regard.nn.token_reduction`, on padded batches.
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
    """The remaining tokens, in order, and what became of the first ones."""

    tokens: Packed
    """(tokens, d_model)."""
    size: Tensor | None = None
    """(tokens,): how many of the first tokens each stands for; None: each for itself."""
    index: Tensor | None = None
    """(first tokens,): index of the token that each first one became, -1 for none; None: unchanged."""

    @property
    def x(self) -> Tensor:
        return self.tokens.values

    @property
    def firsts(self) -> Tensor:
        """Index of the first token of each sequence."""
        return self.tokens.offsets[:-1].long()

    @property
    def bias(self) -> Tensor | None:
        """log(size) on the scores of each key: a token counts as many as it stands for."""
        return None if self.size is None else self.size.log()

    def unmerged(self) -> Tensor:
        """For each first token the vector of the one it became, zeros if it was dropped."""
        if self.index is None:
            return self.x
        found = self.x.index_select(0, self.index.clamp(min=0))
        return found.masked_fill((self.index < 0).unsqueeze(1), 0.0)

    def means(self) -> Tensor:
        """Mean of each sequence, tokens weighted by how many they stand for: (sequences, d_model)."""
        lengths = self.tokens.lengths
        size = self.x.new_ones(len(self.x)) if self.size is None else self.size
        number = torch.arange(len(lengths)).repeat_interleave(lengths)
        total = size.new_zeros(len(lengths)).index_add(0, number, size)
        weighted = self.x * (size / total.index_select(0, number)).unsqueeze(1)
        return self.x.new_zeros(len(lengths), self.x.size(1)).index_add(0, number, weighted)


@dataclass(frozen=True)
class Stats:
    """Of a self-attention sublayer: mean keys (tokens, size) and attention received (tokens,), 1 on average."""

    keys: Tensor
    received: Tensor


def reduce_packed(
    stack: Stack, embedded: Packed, reducer: Merging | Pruning, *, first_only: bool
) -> PackedTokens:
    """Tokens (tokens, d_model) through all blocks, fewer from block to block.

    Args:
        stack: Encoder blocks; a final norm is left to the caller.
        first_only: The last block computes the first token of each sequence alone: x is (sequences, d_model).
    """
    tokens = PackedTokens(embedded)
    for number, (attention, _) in enumerate(stack.blocks):
        rate = stack.dropout if number == 0 else 0
        attend = StackSpec().add(stack, rate, slice(2 * number, 2 * number + 1))
        feed_forward = StackSpec().add(stack, 0, slice(2 * number + 1, 2 * number + 2))
        offsets = tokens.tokens.offsets
        if first_only and number + 1 == len(stack.blocks):
            block = StackSpec().add(stack, rate, slice(2 * number, 2 * number + 2))
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
    """`Merging.reduce`: the mean of the tokens that become one, each weighted by how many it stands for."""
    sequences = tokens.tokens
    counts = reducer.merge_counts(layer, sequences.lengths)
    if not counts.any():
        return tokens
    target = match(stats.keys, sequences, counts, near=reducer.near, first_stays=reducer.first_stays)
    size = tokens.x.new_ones(len(target)) if tokens.size is None else tokens.size
    lengths = sequences.lengths - counts
    total = size.new_zeros(int(lengths.sum())).index_add(0, target, size)
    weight = size / total.index_select(0, target)
    x = weighted_sum(tokens.x.contiguous(), weight, target, sequences.offsets, len(total))
    index = target if tokens.index is None else target.index_select(0, tokens.index)
    return PackedTokens(Packed(x, lengths), total, index)


def prune(reducer: Pruning, layer: int, tokens: PackedTokens, stats: Stats) -> PackedTokens:
    """`Pruning.reduce`: drop tokens with less attention than the threshold; the first one stays."""
    stays = stats.received >= reducer.thresholds[layer]
    stays[tokens.firsts] = True
    lengths = tokens.tokens.lengths
    number = torch.arange(len(lengths)).repeat_interleave(lengths)
    remaining = torch.zeros_like(lengths).index_add_(0, number, stays.long())
    position = torch.where(stays, stays.long().cumsum(0) - 1, -1)
    index = position
    if tokens.index is not None:
        index = torch.where(tokens.index < 0, -1, position[tokens.index.clamp(min=0)])
    x = tokens.x.index_select(0, stays.nonzero().squeeze(1))
    return replace(tokens, tokens=Packed(x, remaining), index=index)


def match(keys: Tensor, sequences: Packed, counts: Tensor, *, near: bool, first_stays: bool) -> Tensor:
    """`regard.nn.token_reduction.match` for keys (tokens, size): index of the token each becomes, (tokens,).

    Raises:
        ValueError: The sequences do not fit the keys, or more than half of the tokens are to be merged.
    """
    if len(keys) != int(sequences.lengths.sum()):
        raise ValueError(f"sequences of {int(sequences.lengths.sum())} tokens do not fit {len(keys)} keys")
    if int((counts > (sequences.lengths + 1) // 2).sum()):
        raise ValueError("at most half of the tokens of a sequence can be merged at a time")
    keys, counts, offsets = keys.contiguous(), counts.contiguous(), sequences.offsets
    target = torch.empty(len(keys), dtype=torch.int64)
    library().match_tokens(
        *(data_ptr(keys), data_ptr(offsets), len(counts), keys.size(1), data_ptr(counts), near, first_stays),
        data_ptr(target),
    )
    return target


@torch.library.custom_op("regard::weighted_sum", mutates_args=())
def weighted_sum(x: Tensor, weight: Tensor, target: Tensor, offsets: Tensor, count: int) -> Tensor:
    """Rows (tokens, width), each times its weight, added up at their targets: (count, width)."""
    out = x.new_zeros(count, x.size(1))
    library().sum_rows(*map(data_ptr, (x, weight, target, offsets)), len(offsets) - 1, x.size(1), data_ptr(out))
    return out


@weighted_sum.register_fake
def _(x: Tensor, weight: Tensor, target: Tensor, offsets: Tensor, count: int) -> Tensor:
    return x.new_empty(count, x.size(1))


def _save_weights(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1], inputs[2])


@refuse_second_order
def _spread(ctx: Any, upstream: Tensor) -> Sequence[Tensor | None]:
    weight, target = ctx.saved_tensors
    return cast(Tensor, upstream.index_select(0, target) * weight.unsqueeze(1)), None, None, None, None


weighted_sum.register_autograd(_spread, setup_context=_save_weights)
