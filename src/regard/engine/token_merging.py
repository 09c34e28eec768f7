"""Token merging by the kernels: the matching of tokens by their keys, and the weighted means."""

from typing import Any, cast

import torch
from torch import Tensor

from regard.engine.library import data_ptr, first_order, library
from regard.engine.ops import check_lengths
from regard.nn import AttentionStats, Ends, Merging, ReducedTokens


class NativeMerging:
    """A `Merging` whose matching and means are computed by the kernels."""

    def __init__(self, merging: Merging) -> None:
        self.merging = merging

    def reduces(self, layer: int) -> bool:
        return self.merging.reduces(layer)

    def reduce(self, layer: int, left: ReducedTokens, noted: AttentionStats) -> ReducedTokens:
        return self.merging.reduce(layer, left, noted, match=match, combine=weighted_sum)


def match(keys: Tensor, ends: Ends, many: Tensor, *, near: bool, first_stays: bool) -> Tensor:
    """As `regard.nn.token_reduction.matched`: which of the remaining tokens each one becomes, (tokens,)."""
    check_lengths(ends, len(keys), "keys")
    if int((many > (ends.lengths + 1) // 2).sum()):
        raise ValueError("at most half of the tokens of a sequence can be merged at a time")
    keys, many = keys.contiguous(), many.contiguous()
    into = torch.empty(len(keys), dtype=torch.int64)
    library().match_apart(
        data_ptr(keys),
        data_ptr(ends.start),
        len(ends.lengths),
        keys.size(1),
        data_ptr(many),
        near,
        first_stays,
        data_ptr(into),
    )
    return into


def weighted_sum(x: Tensor, share: Tensor, into: Tensor, ends: Ends, count: int) -> Tensor:
    """Rows (tokens, width), each times its share, added up where they go: (count, width)."""
    return cast(Tensor, _WeightedSum.apply(x.contiguous(), share, into, ends, count))  # type: ignore[no-untyped-call]


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, share: Tensor, into: Tensor, ends: Ends, count: int) -> Tensor:
        out = x.new_zeros(count, x.size(1))
        share, into = share.contiguous(), into.contiguous()
        library().join_rows(
            *map(data_ptr, (x, share, into, ends.start)), len(ends.lengths), x.size(1), data_ptr(out)
        )
        ctx.save_for_backward(share, into)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        share, into = ctx.saved_tensors
        return upstream[0].index_select(0, into) * share.unsqueeze(1), None, None, None, None
