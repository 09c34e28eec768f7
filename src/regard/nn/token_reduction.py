"""Token reduction: merging and pruning make the tokens of a batch fewer from block to block.

Merging (Bolya et al. 2023) averages the tokens whose keys are most alike, without any training. Pruning (Kim et
al. 2022) drops the tokens that get little attention, by a learned threshold for each layer. After every layer
the remaining tokens are moved to the left and the batch is cut to the longest sequence that is left.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.attention import AttentionStats
from regard.nn.blocks import EncoderBlock, EncoderStack
from regard.nn.recorder import Recorder

TokenCounts = tuple[tuple[Tensor, Tensor], ...]
"""For each block (batch,) numbers of tokens: in self-attention, and in the feed-forward network after it."""


@dataclass(frozen=True)
class ReducedTokens:
    """The remaining tokens, in order, and what became of the first ones."""

    x: Tensor  # (batch, length, d_model)
    nonpad: Tensor  # (batch, length)
    size: Tensor | None = None
    """(batch, length): how many of the first tokens each stands for, 0 at padding; None: each for itself."""
    index: Tensor | None = None
    """(batch, first length): position of the token that each first one became, -1 for none; None: unchanged."""
    counts: TokenCounts = ()

    @property
    def lengths(self) -> Tensor:
        """Remaining tokens of each sequence: (batch,)."""
        return self.nonpad.sum(1)

    @property
    def bias(self) -> Tensor | None:
        """log(size) on the scores (batch, 1, 1, key): a token counts as many as it stands for."""
        if self.size is None:
            return None
        return self.size.masked_fill(~self.nonpad, 1).log()[:, None, None, :]

    def unmerged(self) -> Tensor:
        """For each first token the vector of the one it became: (batch, first length, d_model), else zeros."""
        if self.index is None:
            return self.x.masked_fill(~self.nonpad.unsqueeze(2), 0.0)
        found = self.x.gather(1, over_size(self.index.clamp(min=0), self.x))
        return found.masked_fill((self.index < 0).unsqueeze(2), 0.0)

    def means(self) -> Tensor:
        """Mean of each sequence, tokens weighted by how many they stand for: (batch, d_model)."""
        size = self.nonpad.to(self.x.dtype) if self.size is None else self.size
        weight = size / size.sum(1, keepdim=True)
        return (self.x * weight.unsqueeze(2)).sum(1)


class Reducer(Protocol):
    """Makes tokens fewer between the two sublayers of an encoder block."""

    def reduces(self, layer: int) -> bool:
        """Whether this layer may remove tokens; only then statistics are computed."""

    def reduce(self, layer: int, tokens: ReducedTokens, stats: AttentionStats) -> ReducedTokens: ...


def reduce_tokens(
    blocks: EncoderStack, x: Tensor, nonpad: Tensor, reducer: Reducer, *, first_only: bool
) -> ReducedTokens:
    """Tokens through all blocks, fewer from block to block.

    Args:
        x: (batch, length, d_model), padded at the end.
        nonpad: (batch, length), True where a token stands.
        first_only: Only the first token of each sequence is needed: the last block computes no other, and the
            result's x is (batch, 1, d_model).
    """
    tokens = ReducedTokens(x, nonpad)
    for number, block in enumerate(cast(Iterator[EncoderBlock], blocks)):
        lengths, mask = tokens.lengths, tokens.nonpad.unsqueeze(1)
        if first_only and number + 1 == len(blocks):
            first = block(tokens.x, mask=mask, bias=tokens.bias, queries=1)
            return replace(tokens, x=first, counts=(*tokens.counts, (lengths, torch.ones_like(lengths))))
        stats = AttentionStats(tokens.nonpad) if reducer.reduces(number) else None
        x = block.self_attention(tokens.x, mask=mask, bias=tokens.bias, stats=stats)
        tokens = replace(tokens, x=x)
        if stats is not None:
            tokens = reducer.reduce(number, tokens, stats)
        counts = (*tokens.counts, (lengths, tokens.lengths))
        tokens = replace(tokens, x=block.feed_forward(tokens.x), counts=counts)
    return tokens


def kept_share(counts: TokenCounts) -> float:
    """Share of the tokens that remain after a block, mean over all blocks but the last."""
    first = float(counts[0][0].sum())
    shares = [float(after.sum()) / first for _, after in counts[:-1] or counts]
    return sum(shares) / len(shares)


def operations(counts: TokenCounts, d_model: int, d_ff: int, *, first_only: bool) -> float:
    """Floating-point operations of the matrix products in the blocks, mean over the sequences.

    Projections, scores, weighted values, feed-forward; with `first_only` the last block has one query.
    """
    total = 0.0
    for number, (attended, remaining) in enumerate(counts):
        keys, after = attended.double(), remaining.double()
        queries = after if first_only and number + 1 == len(counts) else keys
        projected = 4 * (keys + queries) * d_model**2
        total += float((projected + 4 * queries * keys * d_model + 4 * after * d_model * d_ff).mean())
    return total


class Merging(nn.Module):
    """Token merging: in each layer the pairs of tokens with the most similar keys become their mean.

    Args:
        amounts: Tokens to merge in each layer, a share of them below 1, else so many; one number for all
            layers.
        near: Merge neighbours only, so that a token stands for a stretch of the text.
        first_stays: The first token is not merged: it represents the whole sequence.
    """

    def __init__(self, amounts: tuple[float, ...], near: bool = False, first_stays: bool = True) -> None:
        super().__init__()
        self.amounts, self.near, self.first_stays = amounts, near, first_stays

    def reduces(self, layer: int) -> bool:
        return self.amount(layer) > 0

    def amount(self, layer: int) -> float:
        """One number is for all layers; of several, each is for one layer, and the rest have none."""
        if len(self.amounts) == 1:
            return self.amounts[0]
        return self.amounts[layer] if layer < len(self.amounts) else 0.0

    def merge_counts(self, layer: int, lengths: Tensor) -> Tensor:
        """How many tokens of sequences of these lengths are merged into others in a layer: (batch,)."""
        amount = self.amount(layer)
        most = (lengths + 1) // 2 - int(self.first_stays)
        wanted = (lengths * amount).long() if amount < 1 else torch.full_like(lengths, int(amount))
        return torch.minimum(wanted, most.clamp(min=0)).masked_fill(lengths < 2, 0)

    def reduce(self, layer: int, tokens: ReducedTokens, stats: AttentionStats) -> ReducedTokens:
        counts = self.merge_counts(layer, tokens.lengths)
        if not counts.any():
            return tokens
        assert stats.keys is not None
        target = match(stats.keys, tokens.nonpad, counts, near=self.near, first_stays=self.first_stays)
        return merge(tokens, target, tokens.lengths - counts)


def match(keys: Tensor, nonpad: Tensor, counts: Tensor, *, near: bool, first_stays: bool) -> Tensor:
    """Position of the remaining token that each token becomes: (batch, length), 0 at padding.

    Every other token is paired with the one among the rest whose key is most similar by cosine; the best
    `counts` (batch,) pairs of each sequence are merged. What remains keeps its order. keys are (batch, length,
    size).
    """
    keys = functional.normalize(keys, dim=-1)
    fit = keys[:, ::2] @ keys[:, 1::2].transpose(1, 2)  # (batch, even tokens, odd tokens)
    allowed = nonpad[:, ::2, None] & nonpad[:, None, 1::2]
    length = nonpad.size(1)
    if near:
        distance = torch.arange(0, length, 2).unsqueeze(1) - torch.arange(1, length, 2)
        allowed = allowed & (distance.abs() == 1).to(allowed.device)
    best, partner = fit.masked_fill(~allowed, -torch.inf).max(-1)
    if first_stays:
        best[:, 0] = -torch.inf
    rank = best.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    merged = rank < counts.unsqueeze(1)
    stays = nonpad.clone()
    stays[:, ::2] &= ~merged
    position = stays.long().cumsum(1) - 1  # of a token that stays, among those
    target = torch.arange(length, device=nonpad.device).repeat(len(nonpad), 1)
    target[:, ::2] = torch.where(merged, 2 * partner + 1, target[:, ::2])
    return position.gather(1, target).masked_fill(~nonpad, 0)


def merge(tokens: ReducedTokens, target: Tensor, lengths: Tensor) -> ReducedTokens:
    """The mean of the tokens that become one, each weighted by how many it stands for.

    Args:
        target: (batch, length), from `match`.
        lengths: (batch,), how many tokens remain.
    """
    size = tokens.nonpad.to(tokens.x.dtype) if tokens.size is None else tokens.size
    max_length = int(lengths.max())
    total = size.new_zeros(len(size), max_length).scatter_add(1, target, size)
    share = size / total.gather(1, target)
    x = tokens.x.new_zeros(len(size), max_length, tokens.x.size(2))
    x = x.scatter_add(1, over_size(target, tokens.x), tokens.x * share.unsqueeze(2))
    index = tokens.index
    if index is None:
        index = target.masked_fill(~tokens.nonpad, -1)
    else:
        index = target.gather(1, index.clamp(min=0)).masked_fill(index < 0, -1)
    nonpad = torch.arange(max_length, device=lengths.device) < lengths.unsqueeze(1)
    return replace(tokens, x=x, nonpad=nonpad, size=total, index=index)


LOWEST = 1e-6
"""The least a softly pruned token counts."""


@dataclass(frozen=True)
class SoftPruned:
    """All tokens after the blocks, each counted by how much of it soft pruning keeps."""

    x: Tensor  # (batch, length, d_model)
    kept: Tensor
    """Share of the tokens that is kept, mean over the layers: one number, with its gradient."""


class Pruning(nn.Module):
    """Learned token pruning: a threshold for each layer on the attention that a token gets, 1 on average.

    Outside training, and in training where it is `hard`, tokens below it are dropped. While thresholds are
    learned a token counts by a soft step instead, added to the scores of all queries as log(size) is.

    Args:
        layers: Number of thresholds.
        hard: Whether training drops tokens instead of learning the thresholds.
        temperature: Width of the soft step.
        keep: Share of the tokens that costs nothing.
        weight: Penalty for keeping more than that.
    """

    def __init__(
        self, layers: int, *, hard: bool, temperature: float = 0.02, keep: float = 1.0, weight: float = 0.0
    ) -> None:
        super().__init__()
        self.thresholds = nn.Parameter(torch.zeros(layers), requires_grad=not hard)
        self.hard, self.temperature, self.keep, self.weight = hard, temperature, keep, weight

    @property
    def soft(self) -> bool:
        """Whether thresholds are being learned."""
        return self.training and not self.hard

    def reduces(self, layer: int) -> bool:
        return True

    def reduce(self, layer: int, tokens: ReducedTokens, stats: AttentionStats) -> ReducedTokens:
        """Drop what got less attention than the threshold; the first token of a sequence stays."""
        assert stats.received is not None
        stays = (stats.received >= self.thresholds[layer]) & tokens.nonpad
        stays[:, 0] = True
        lengths = stays.sum(1)
        order = (~stays).long().argsort(dim=1, stable=True)[:, : int(lengths.max())]
        position = torch.where(stays, stays.long().cumsum(1) - 1, -1)
        index = position
        if tokens.index is not None:
            index = position.gather(1, tokens.index.clamp(min=0)).masked_fill(tokens.index < 0, -1)
        x = tokens.x.gather(1, over_size(order, tokens.x))
        nonpad = torch.arange(order.size(1), device=order.device) < lengths.unsqueeze(1)
        return replace(tokens, x=x, nonpad=nonpad, index=index)

    def penalty(self, pruned: SoftPruned) -> Tensor:
        """What keeping too many tokens adds to the loss of one example."""
        return self.weight * (pruned.kept - self.keep).clamp(min=0)

    def soft_prune(self, blocks: EncoderStack, x: Tensor, nonpad: Tensor) -> SoftPruned:
        """Soft steps instead of dropping: x (batch, length, d_model), nonpad (batch, length)."""
        mask, share = nonpad.unsqueeze(1), nonpad.to(x.dtype)
        kept = []
        for number, block in enumerate(cast(Iterator[EncoderBlock], blocks)):
            recorded: list[Tensor] = []
            bias = share.clamp(min=LOWEST).log()[:, None, None, :]
            x = block.self_attention(x, mask=mask, bias=bias, record=cast(Recorder, recorded.append))
            received = (recorded[0].detach().mean(1) * share.detach().unsqueeze(2)).sum(1)  # (batch, length)
            step = torch.sigmoid((received - self.thresholds[number]) / self.temperature)
            share = torch.cat([share[:, :1], (share * step)[:, 1:]], 1)
            x = block.feed_forward(x)
            kept.append((share * nonpad).sum() / nonpad.sum())
        return SoftPruned(x, torch.stack(kept[:-1] or kept).mean())


def over_size(index: Tensor, x: Tensor) -> Tensor:
    """An index (batch, tokens) for `gather` and `scatter_add` of x (batch, length, d_model)."""
    return index.unsqueeze(2).expand(-1, -1, x.size(2))
