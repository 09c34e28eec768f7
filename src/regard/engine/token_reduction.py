"""Token reduction on packed batches by the kernels: removed tokens cost nothing, whatever their number.

The plain twin is `regard.nn.token_reduction`, on padded batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from regard.engine.library import data_ptr, first_order, library
from regard.engine.ops import check_lengths
from regard.engine.pack import PackedMask, SequenceOffsets
from regard.nn.attention import AttentionStats
from regard.nn.token_reduction import Merging, Pruning


@dataclass(frozen=True)
class PackedTokens:
    """The remaining tokens, in order, and what became of the first ones."""

    x: Tensor  # (tokens, d_model)
    sequences: SequenceOffsets
    size: Tensor | None = None
    """(tokens,): how many of the first tokens each stands for; None: each for itself."""
    index: Tensor | None = None
    """(first tokens,): index of the token that each first one became, -1 for none; None: unchanged."""

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
        lengths = self.sequences.lengths
        size = self.x.new_ones(len(self.x)) if self.size is None else self.size
        number = torch.arange(len(lengths)).repeat_interleave(lengths)
        total = size.new_zeros(len(lengths)).index_add(0, number, size)
        weighted = self.x * (size / total.index_select(0, number)).unsqueeze(1)
        return self.x.new_zeros(len(lengths), self.x.size(1)).index_add(0, number, weighted)


class PackedEncoderBlock(Protocol):
    """A block of `regard.engine.forward`."""

    self_attention: Any
    feed_forward: Any

    def __call__(
        self, x: Tensor, *, mask: PackedMask, queries: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor: ...


def reduce_packed(
    blocks: Sequence[PackedEncoderBlock],
    x: Tensor,
    sequences: SequenceOffsets,
    reducer: Merging | Pruning,
    *,
    first_only: bool,
) -> PackedTokens:
    """Tokens (tokens, d_model) through all blocks, fewer from block to block.

    With `first_only` the last block computes the first token of each sequence alone: x is (sequences, d_model).
    """
    tokens = PackedTokens(x, sequences)
    for number, block in enumerate(blocks):
        offsets = tokens.sequences
        if first_only and number + 1 == len(blocks):
            mask = PackedMask(SequenceOffsets(torch.ones_like(offsets.lengths)), offsets)
            return replace(tokens, x=block(tokens.x, mask=mask, queries=offsets.firsts, bias=tokens.bias))
        stats = AttentionStats() if reducer.reduces(number) else None
        x = block.self_attention(tokens.x, mask=PackedMask(offsets, offsets), bias=tokens.bias, stats=stats)
        tokens = replace(tokens, x=x)
        if stats is not None:
            merging = isinstance(reducer, Merging)
            tokens = merge(reducer, number, tokens, stats) if merging else prune(reducer, number, tokens, stats)
        tokens = replace(tokens, x=block.feed_forward(tokens.x))
    return tokens


def merge(reducer: Merging | Pruning, layer: int, tokens: PackedTokens, stats: AttentionStats) -> PackedTokens:
    """`Merging.reduce`: the mean of the tokens that become one, each weighted by how many it stands for."""
    assert isinstance(reducer, Merging)
    assert stats.keys is not None
    sequences = tokens.sequences
    counts = reducer.merge_counts(layer, sequences.lengths)
    if not counts.any():
        return tokens
    target = match(stats.keys, sequences, counts, near=reducer.near, first_stays=reducer.first_stays)
    remaining = SequenceOffsets(sequences.lengths - counts)
    size = tokens.x.new_ones(len(target)) if tokens.size is None else tokens.size
    total = size.new_zeros(int(remaining.offsets[-1])).index_add(0, target, size)
    share = size / total.index_select(0, target)
    x = weighted_sum(tokens.x, share, target, sequences, len(total))
    index = target if tokens.index is None else target.index_select(0, tokens.index)
    return replace(tokens, x=x, sequences=remaining, size=total, index=index)


def prune(reducer: Merging | Pruning, layer: int, tokens: PackedTokens, stats: AttentionStats) -> PackedTokens:
    """`Pruning.reduce`: drop tokens with less attention than the threshold; the first one stays."""
    assert isinstance(reducer, Pruning)
    assert stats.received is not None
    sequences = tokens.sequences
    stays = stats.received >= reducer.thresholds[layer]
    stays[sequences.firsts] = True
    number = torch.arange(len(sequences.lengths)).repeat_interleave(sequences.lengths)
    lengths = torch.zeros_like(sequences.lengths).index_add_(0, number, stays.long())
    place = torch.where(stays, stays.long().cumsum(0) - 1, -1)
    index = place
    if tokens.index is not None:
        index = torch.where(tokens.index < 0, -1, place[tokens.index.clamp(min=0)])
    x = tokens.x.index_select(0, stays.nonzero().squeeze(1))
    return replace(tokens, x=x, sequences=SequenceOffsets(lengths), index=index)


def match(keys: Tensor, sequences: SequenceOffsets, counts: Tensor, *, near: bool, first_stays: bool) -> Tensor:
    """`regard.nn.token_reduction.match` for keys (tokens, size): index of the token each becomes, (tokens,)."""
    check_lengths(sequences, len(keys), "keys")
    if int((counts > (sequences.lengths + 1) // 2).sum()):
        raise ValueError("at most half of the tokens of a sequence can be merged at a time")
    keys, counts = keys.contiguous(), counts.contiguous()
    target = torch.empty(len(keys), dtype=torch.int64)
    library().match_apart(
        data_ptr(keys),
        data_ptr(sequences.offsets),
        len(sequences.lengths),
        keys.size(1),
        data_ptr(counts),
        near,
        first_stays,
        data_ptr(target),
    )
    return target


def weighted_sum(x: Tensor, share: Tensor, target: Tensor, sequences: SequenceOffsets, count: int) -> Tensor:
    """Rows (tokens, width), each times its share, added up at their targets: (count, width)."""
    return cast(Tensor, _WeightedSum.apply(x.contiguous(), share, target, sequences, count))  # type: ignore[no-untyped-call]


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, share: Tensor, target: Tensor, sequences: SequenceOffsets, count: int
    ) -> Tensor:
        out = x.new_zeros(count, x.size(1))
        share, target = share.contiguous(), target.contiguous()
        library().join_rows(
            *map(data_ptr, (x, share, target, sequences.offsets)),
            len(sequences.lengths),
            x.size(1),
            data_ptr(out),
        )
        ctx.save_for_backward(share, target)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        share, target = ctx.saved_tensors
        return upstream[0].index_select(0, target) * share.unsqueeze(1), None, None, None, None
