"""Token merging (Bolya et al. 2023): tokens whose keys are most alike become one, without any training."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import Ends, Noted
from regard.layers.reduction import Left

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
        left: Left,
        noted: Noted,
        *,
        match: "Match | None" = None,
        combine: "Combine | None" = None,
    ) -> Left:
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


def merged(left: Left, into: Tensor, ends: Ends, combine: Combine = weighted_sum) -> Left:
    """The mean of the tokens that become one, each counted as often as it stands for others."""
    size = left.x.new_ones(len(into)) if left.size is None else left.size
    count = int(ends.start[-1])
    together = size.new_zeros(count).index_add(0, into, size)
    share = size / together.index_select(0, into)
    x = combine(left.x, share, into, left.ends, count)
    whole = into if left.into is None else into.index_select(0, left.into)
    return replace(left, x=x, ends=ends, size=together, into=whole)
