"""Token reduction: merging and pruning reduce the number of tokens from block to block.

Merging (Bolya et al. 2023) averages the tokens with the most similar keys, without any training. Pruning (Kim
et al. 2022) drops the tokens that receive little attention, by a learned threshold for each layer. After every
layer the remaining tokens are moved to the left and the batch is cut to the longest remaining sequence.
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
"""For each block (batch,) numbers of tokens: in self-attention, and in its feed-forward network."""


@dataclass(frozen=True)
class ReducedTokens:
    """The remaining tokens, in order, and how they map to the input tokens."""

    x: Tensor  # (batch, length, d_model)
    nonpad: Tensor  # (batch, length)
    size: Tensor | None = None
    """(batch, length): number of input tokens that each one represents, 0 at padding; None: 1 each."""
    index: Tensor | None = None
    """(batch, input length): position of the token that represents each input token, -1 for none."""
    counts: TokenCounts = ()

    @property
    def lengths(self) -> Tensor:
        """Remaining tokens of each sequence: (batch,)."""
        return self.nonpad.sum(1)

    @property
    def bias(self) -> Tensor | None:
        """log(size) (batch, 1, 1, key), added to the scores: a token is weighted by its size."""
        if self.size is None:
            return None
        return self.size.masked_fill(~self.nonpad, 1).log()[:, None, None, :]

    def unmerged(self) -> Tensor:
        """The vector that represents each input token, zeros if dropped: (batch, input length, d_model)."""
        if self.index is None:
            return self.x.masked_fill(~self.nonpad.unsqueeze(2), 0.0)
        vectors = self.x.gather(1, expand_index(self.index.clamp(min=0), self.x))
        return vectors.masked_fill((self.index < 0).unsqueeze(2), 0.0)

    def means(self) -> Tensor:
        """Mean of each sequence, tokens weighted by the number they represent: (batch, d_model)."""
        size = self.nonpad.to(self.x.dtype) if self.size is None else self.size
        weight = size / size.sum(1, keepdim=True)
        return (self.x * weight.unsqueeze(2)).sum(1)


class Reducer(Protocol):
    """Reduces the number of tokens between the two sublayers of an encoder block."""

    def reduces(self, layer: int) -> bool:
        """Whether this layer may remove tokens; otherwise no statistics are computed."""

    def reduce(self, layer: int, tokens: ReducedTokens, stats: AttentionStats) -> ReducedTokens:
        """The tokens that remain after the self-attention of a layer, which computed `stats`."""


def reduce_tokens(
    blocks: EncoderStack, x: Tensor, nonpad: Tensor, reducer: Reducer, *, first_only: bool
) -> ReducedTokens:
    """Run encoder blocks, with token reduction in each.

    Args:
        blocks: The encoder blocks.
        x: (batch, length, d_model), padded at the end.
        nonpad: (batch, length), True at tokens.
        reducer: `Merging` or `Pruning`.
        first_only: The last block computes only the first token of each sequence: the result's x is
            (batch, 1, d_model).
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


def matmul_flops(counts: TokenCounts, d_model: int, d_ff: int, *, first_only: bool) -> float:
    """FLOPs of the matrix products in the blocks, mean over the sequences.

    Counts projections, scores, weighted values and feed-forward networks; with `first_only` the last block has
    one query.
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
        amounts: How many tokens each layer merges: a share of them if below 1, else their number. A single
            amount is for all layers.
        neighbors_only: Merge adjacent tokens only, so that a token represents a contiguous span of the text.
        first_stays: The first token is not merged: it represents the whole sequence.
    """

    def __init__(
        self, amounts: tuple[float, ...], neighbors_only: bool = False, first_stays: bool = True
    ) -> None:
        super().__init__()
        self.amounts, self.neighbors_only, self.first_stays = amounts, neighbors_only, first_stays

    def reduces(self, layer: int) -> bool:
        return self.amount(layer) > 0

    def amount(self, layer: int) -> float:
        """The amount of a layer: a single amount is for all layers; layers after the last amount have 0."""
        if len(self.amounts) == 1:
            return self.amounts[0]
        return self.amounts[layer] if layer < len(self.amounts) else 0.0

    def merge_counts(self, layer: int, lengths: Tensor) -> Tensor:
        """How many tokens a layer merges into others, for sequences of these lengths (batch,): (batch,)."""
        amount = self.amount(layer)
        most = (lengths + 1) // 2 - int(self.first_stays)
        wanted = (lengths * amount).long() if amount < 1 else torch.full_like(lengths, int(amount))
        return torch.minimum(wanted, most.clamp(min=0)).masked_fill(lengths < 2, 0)

    def reduce(self, layer: int, tokens: ReducedTokens, stats: AttentionStats) -> ReducedTokens:
        counts = self.merge_counts(layer, tokens.lengths)
        if not counts.any():
            return tokens
        assert stats.keys is not None
        target = match(
            stats.keys,
            tokens.nonpad,
            counts,
            neighbors_only=self.neighbors_only,
            first_stays=self.first_stays,
        )
        return merge(tokens, target, tokens.lengths - counts)


def match(keys: Tensor, nonpad: Tensor, counts: Tensor, *, neighbors_only: bool, first_stays: bool) -> Tensor:
    """Bipartite matching: which remaining token each token is merged into.

    Each token at an even position is paired with the token at an odd position whose key has the highest cosine
    similarity; the most similar pairs of each sequence are merged. The remaining tokens keep their order.

    Args:
        keys: (batch, length, size).
        nonpad: (batch, length), True at tokens.
        counts: (batch,), number of pairs to merge.
        neighbors_only: Pair adjacent tokens only.
        first_stays: The first token is not merged.

    Returns:
        (batch, length), the position of the remaining token, 0 at padding.
    """
    keys = functional.normalize(keys, dim=-1)
    similarity = keys[:, ::2] @ keys[:, 1::2].transpose(1, 2)  # (batch, even tokens, odd tokens)
    allowed = nonpad[:, ::2, None] & nonpad[:, None, 1::2]
    length = nonpad.size(1)
    if neighbors_only:
        distance = torch.arange(0, length, 2).unsqueeze(1) - torch.arange(1, length, 2)
        allowed = allowed & (distance.abs() == 1).to(allowed.device)
    best, partner = similarity.masked_fill(~allowed, -torch.inf).max(-1)
    if first_stays:
        best[:, 0] = -torch.inf
    rank = best.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    merged = rank < counts.unsqueeze(1)
    stays = nonpad.clone()
    stays[:, ::2] &= ~merged
    position = stays.long().cumsum(1) - 1  # of a remaining token among the remaining ones
    target = torch.arange(length, device=nonpad.device).repeat(len(nonpad), 1)
    target[:, ::2] = torch.where(merged, 2 * partner + 1, target[:, ::2])
    return position.gather(1, target).masked_fill(~nonpad, 0)


def merge(tokens: ReducedTokens, target: Tensor, lengths: Tensor) -> ReducedTokens:
    """Merge tokens into their weighted mean; a token is weighted by the number of input tokens it represents.

    Args:
        tokens: The tokens before merging.
        target: (batch, length), from `match`.
        lengths: (batch,), number of tokens that remain.
    """
    size = tokens.nonpad.to(tokens.x.dtype) if tokens.size is None else tokens.size
    max_length = int(lengths.max())
    total = size.new_zeros(len(size), max_length).scatter_add(1, target, size)
    share = size / total.gather(1, target)
    x = tokens.x.new_zeros(len(size), max_length, tokens.x.size(2))
    x = x.scatter_add(1, expand_index(target, tokens.x), tokens.x * share.unsqueeze(2))
    index = tokens.index
    if index is None:
        index = target.masked_fill(~tokens.nonpad, -1)
    else:
        index = target.gather(1, index.clamp(min=0)).masked_fill(index < 0, -1)
    nonpad = torch.arange(max_length, device=lengths.device) < lengths.unsqueeze(1)
    return replace(tokens, x=x, nonpad=nonpad, size=total, index=index)


MIN_WEIGHT = 1e-6
"""Smallest weight of a softly pruned token."""


@dataclass(frozen=True)
class SoftPruned:
    """All tokens after the blocks, with weights between 0 and 1 instead of being dropped."""

    x: Tensor  # (batch, length, d_model)
    kept: Tensor
    """Share of the tokens that is kept, mean over the layers: a scalar with a gradient."""


class Pruning(nn.Module):
    """Learned token pruning: a threshold for each layer on the attention that a token receives, 1 on average.

    In evaluation, and in training if `hard`, tokens below the threshold are dropped. While thresholds are
    learned, a token has a weight instead, a sigmoid of its distance from the threshold, whose log is added to
    the scores.

    Args:
        layers: Number of thresholds.
        hard: Whether training drops tokens instead of learning the thresholds.
        temperature: Temperature of the sigmoid.
        keep: Share of the tokens that has no penalty.
        weight: Weight of the penalty for keeping a larger share.
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
        """Drop tokens that received less attention than the threshold; the first token of a sequence stays."""
        assert stats.received is not None
        stays = (stats.received >= self.thresholds[layer]) & tokens.nonpad
        stays[:, 0] = True
        lengths = stays.sum(1)
        order = (~stays).long().argsort(dim=1, stable=True)[:, : int(lengths.max())]
        position = torch.where(stays, stays.long().cumsum(1) - 1, -1)
        index = position
        if tokens.index is not None:
            index = position.gather(1, tokens.index.clamp(min=0)).masked_fill(tokens.index < 0, -1)
        x = tokens.x.gather(1, expand_index(order, tokens.x))
        nonpad = torch.arange(order.size(1), device=order.device) < lengths.unsqueeze(1)
        return replace(tokens, x=x, nonpad=nonpad, index=index)

    def penalty(self, pruned: SoftPruned) -> Tensor:
        """The penalty for keeping too many tokens, added to the loss of one example."""
        return self.weight * (pruned.kept - self.keep).clamp(min=0)

    def soft_prune(self, blocks: EncoderStack, x: Tensor, nonpad: Tensor) -> SoftPruned:
        """Run encoder blocks with weights instead of dropping tokens.

        Args:
            blocks: The encoder blocks.
            x: (batch, length, d_model).
            nonpad: (batch, length), True at tokens.
        """
        mask, token_weight = nonpad.unsqueeze(1), nonpad.to(x.dtype)
        kept = []
        for number, block in enumerate(cast(Iterator[EncoderBlock], blocks)):
            recorded: list[Tensor] = []
            bias = token_weight.clamp(min=MIN_WEIGHT).log()[:, None, None, :]
            x = block.self_attention(x, mask=mask, bias=bias, record=cast(Recorder, recorded.append))
            weights = recorded[0].detach().mean(1)  # (batch, query, key)
            received = (weights * token_weight.detach().unsqueeze(2)).sum(1)  # (batch, length)
            kept_part = torch.sigmoid((received - self.thresholds[number]) / self.temperature)
            token_weight = torch.cat([token_weight[:, :1], (token_weight * kept_part)[:, 1:]], 1)
            x = block.feed_forward(x)
            kept.append((token_weight * nonpad).sum() / nonpad.sum())
        return SoftPruned(x, torch.stack(kept[:-1] or kept).mean())


def expand_index(index: Tensor, x: Tensor) -> Tensor:
    """Expand an index (batch, tokens) to (batch, tokens, d_model), as `gather` and `scatter_add` need it."""
    return index.unsqueeze(2).expand(-1, -1, x.size(2))
