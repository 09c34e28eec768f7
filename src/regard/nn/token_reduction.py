"""Fewer tokens while they pass the blocks: what is left of them, by merging or by pruning.

Texts and images alike lie end to end, so that what is gone costs nothing, however much of each is gone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.apart import Apart, AttentionStats, Ends
from regard.nn.blocks import EncoderBlock, EncoderStack
from regard.nn.recorder import Recorder

TokenCounts = tuple[tuple[Tensor, Tensor], ...]
"""For each block, how many tokens of each sentence looked, and how many of them were thought about."""


@dataclass(frozen=True)
class ReducedTokens:
    """The tokens that are left, in order, and what became of those that were there first."""

    x: Tensor  # (tokens, d_model)
    ends: Ends
    size: Tensor | None = None
    """(tokens,): how many of the first tokens each stands for; None: for itself."""
    into: Tensor | None = None
    """(first tokens,): which of the tokens left each became, -1 for none; None: nothing has changed."""
    walked: TokenCounts = ()

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

    def reduce(self, layer: int, left: ReducedTokens, noted: AttentionStats) -> ReducedTokens: ...


def reduced(
    blocks: EncoderStack | Sequence[Any], x: Tensor, ends: Ends, by: Reducer, *, firsts: bool
) -> ReducedTokens:
    """Tokens (tokens, d_model) through all blocks, fewer from block to block.

    With `firsts` only the first token of each sentence is asked for: in the last block no other is computed.
    Blocks of another implementation are called as an `EncoderBlock` is.
    """
    left = ReducedTokens(x, ends)
    for number, block in enumerate(cast(Iterator[EncoderBlock], blocks)):
        if firsts and number + 1 == len(blocks):
            return only_firsts(block, left)
        apart, looked = Apart(left.ends, left.ends), left.ends.lengths
        noted = AttentionStats() if by.reduces(number) else None
        x = block.self_attention(left.x, mask=apart, bias=left.bias, noted=noted)
        left = replace(left, x=x)
        if noted is not None:
            left = by.reduce(number, left, noted)
        walked = (*left.walked, (looked, left.ends.lengths))
        left = replace(left, x=block.feed_forward(left.x), walked=walked)
    return left


def only_firsts(block: EncoderBlock, left: ReducedTokens) -> ReducedTokens:
    """The last block, for the first tokens: x becomes (sentences, d_model)."""
    ones = Ends(torch.ones_like(left.ends.lengths))
    x = block(left.x, mask=Apart(ones, left.ends), places=left.firsts, bias=left.bias)
    return replace(left, x=x, walked=(*left.walked, (left.ends.lengths, ones.lengths)))


def kept_share(walked: TokenCounts) -> float:
    """The share of the tokens that is left after a block, mean over all blocks but the last."""
    first = float(walked[0][0].sum())
    shares = [float(after.sum()) / first for _, after in walked[:-1] or walked]
    return sum(shares) / len(shares)


def operations(walked: TokenCounts, d_model: int, d_ff: int, *, firsts: bool) -> float:
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


Combine = Callable[[Tensor, Tensor, Tensor, Ends, int], Tensor]
"""From rows, their shares, where they go, the sequences and a count: the rows added up."""


class Match(Protocol):
    """Which token each one becomes: see `matched`."""

    def __call__(self, keys: Tensor, ends: Ends, many: Tensor, *, near: bool, first_stays: bool) -> Tensor: ...


class Merging(nn.Module):
    """How many tokens are merged in each layer: a share of them below 1, else so many.

    With `near` only neighbours are merged, so that a token always stands for a stretch of the text. The first
    token of a sentence stays by itself where it speaks for the whole.
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

    def reduce(
        self,
        layer: int,
        left: ReducedTokens,
        noted: AttentionStats,
        *,
        match: "Match | None" = None,
        combine: "Combine | None" = None,
    ) -> ReducedTokens:
        """Merge what is to be merged in this layer; another implementation may match and combine."""
        amount, lengths = self.amount(layer), left.ends.lengths
        most = (lengths + 1) // 2 - int(self.first_stays)
        wanted = (lengths * amount).long() if amount < 1 else torch.full_like(lengths, int(amount))
        many = torch.minimum(wanted, most.clamp(min=0)).masked_fill(lengths < 2, 0)
        assert noted.keys is not None
        if not many.any():
            return left
        match = matched if match is None else match
        into = match(noted.keys, left.ends, many, near=self.near, first_stays=self.first_stays)
        return merged(left, into, Ends(lengths - many), weighted_sum if combine is None else combine)


def matched(keys: Tensor, ends: Ends, many: Tensor, *, near: bool, first_stays: bool) -> Tensor:
    """Which token each one becomes, counted through all that are left: keys (tokens, size) -> (tokens,).

    Every other token looks for the one among the rest whose key is most like its own; the `many` (sentences,)
    best pairs of each sentence are merged. What is left keeps its order.
    """
    real = ends.real
    beside = keys.new_zeros(*real.shape, keys.size(-1)).index_put((real,), functional.normalize(keys, dim=-1))
    fit = beside[:, ::2] @ beside[:, 1::2].transpose(1, 2)  # (sentences, seekers, found)
    allowed = real[:, ::2, None] & real[:, None, 1::2]
    if near:
        apart = torch.arange(0, real.size(1), 2).unsqueeze(1) - torch.arange(1, real.size(1), 2)
        allowed = allowed & (apart.abs() == 1).to(allowed.device)
    best, partner = fit.masked_fill_(~allowed, -torch.inf).max(-1)
    if first_stays:
        best[:, 0] = -torch.inf
    rank = best.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    gone = rank < many.unsqueeze(1)
    stays = real.clone()
    stays[:, ::2] &= ~gone
    place = stays[real].long().cumsum(0) - 1  # where a token that stays stands among those
    start = ends.start[:-1].long().unsqueeze(1)
    target = start + torch.arange(real.size(1), device=start.device)
    target[:, ::2] = torch.where(gone, start + 2 * partner + 1, target[:, ::2])
    return place.index_select(0, target[real])


def weighted_sum(x: Tensor, share: Tensor, into: Tensor, ends: Ends, count: int) -> Tensor:
    """Rows (tokens, width), each times its share, added up where they go: (count, width)."""
    return x.new_zeros(count, x.size(1)).index_add(0, into, x * share.unsqueeze(1))


def merged(left: ReducedTokens, into: Tensor, ends: Ends, combine: Combine = weighted_sum) -> ReducedTokens:
    """The mean of the tokens that become one, each counted as often as it stands for others."""
    size = left.x.new_ones(len(into)) if left.size is None else left.size
    count = int(ends.start[-1])
    together = size.new_zeros(count).index_add(0, into, size)
    share = size / together.index_select(0, into)
    x = combine(left.x, share, into, left.ends, count)
    whole = into if left.into is None else into.index_select(0, left.into)
    return replace(left, x=x, ends=ends, size=together, into=whole)


LOWEST = 1e-6
"""The least a faded token counts."""


@dataclass(frozen=True)
class SoftPruned:
    """Tokens side by side through all blocks, each counted by how much of it is kept."""

    x: Tensor  # (sentences, length, d_model)
    kept: Tensor
    """The share of real tokens that is kept, mean over the layers: one number, with its gradient."""


class Pruning(nn.Module):
    """A threshold for each layer, on the attention a token gets; 1 is a fair share of it.

    Outside of training, and in training where it is `hard`, tokens below it are taken away. While thresholds
    are learned a token counts by a soft step instead, in the scores of all that look at it, as log(size) does.
    """

    def __init__(
        self, layers: int, *, hard: bool, temperature: float = 0.02, keep: float = 1.0, weight: float = 0.0
    ) -> None:
        super().__init__()
        self.thresholds = nn.Parameter(torch.zeros(layers), requires_grad=not hard)
        self.hard, self.temperature, self.keep, self.weight = hard, temperature, keep, weight

    @property
    def soft(self) -> bool:
        return self.training and not self.hard

    def reduces(self, layer: int) -> bool:
        return True

    def reduce(self, layer: int, left: ReducedTokens, noted: AttentionStats) -> ReducedTokens:
        """Drop what got less than the threshold; the first token of a sentence stays."""
        assert noted.received is not None
        stays = noted.received >= self.thresholds[layer]
        stays[left.firsts] = True
        number = torch.arange(len(left.ends.lengths), device=stays.device).repeat_interleave(left.ends.lengths)
        lengths = torch.zeros_like(left.ends.lengths).index_add_(0, number, stays.long())
        place = torch.where(stays, stays.long().cumsum(0) - 1, -1)
        into = place if left.into is None else torch.where(left.into < 0, -1, place[left.into.clamp(min=0)])
        x = left.x.index_select(0, stays.nonzero().squeeze(1))
        return replace(left, x=x, ends=Ends(lengths), into=into)

    def price(self, faded: SoftPruned) -> Tensor:
        """What it costs, an example, that more is kept than should be."""
        return self.weight * (faded.kept - self.keep).clamp(min=0)

    def fade(self, blocks: EncoderStack, x: Tensor, real: Tensor) -> SoftPruned:
        """What hard pruning does, by soft steps: x (sentences, length, d_model), real (sentences, length)."""
        mask, share = real.unsqueeze(1), real.to(x.dtype)
        kept = []
        for number, block in enumerate(cast(Iterator[EncoderBlock], blocks)):
            seen: list[Tensor] = []
            bias = share.clamp(min=LOWEST).log()[:, None, None, :]
            x = block.self_attention(x, mask=mask, bias=bias, record=cast(Recorder, seen.append))
            got = (seen[0].detach().mean(1) * share.detach().unsqueeze(2)).sum(1)  # (sentences, length)
            step = torch.sigmoid((got - self.thresholds[number]) / self.temperature)
            share = torch.cat([share[:, :1], (share * step)[:, 1:]], 1)
            x = block.feed_forward(x)
            kept.append((share * real).sum() / real.sum())
        return SoftPruned(x, torch.stack(kept[:-1] or kept).mean())
