"""Sentences laid end to end instead of side by side: no padding is computed, each sees its own keys only."""

import ctypes
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from regard.attention.masks import causal_mask, combine
from regard.engine import Asked, address, kernels


@dataclass(frozen=True)
class Ends:
    """Where sentences lie in a row of tokens: `lengths` (sentences,), one after another.

    Side by side they take `width` places each, as many as the longest has unless given.
    """

    lengths: Tensor
    width: int = 0

    @staticmethod
    def of(ids: Tensor, padding: int) -> "Ends":
        """Of ids (sentences, length) that are padded at the end."""
        return Ends((ids != padding).sum(1), ids.size(1))

    @cached_property
    def start(self) -> Tensor:
        """Where each sentence begins, and where the last one ends: (sentences + 1,)."""
        return torch.nn.functional.pad(self.lengths.cumsum(0), (1, 0)).to(torch.int32)

    @cached_property
    def real(self) -> Tensor:
        """Which places are tokens when the sentences lie side by side: (sentences, width)."""
        width = self.width or int(self.lengths.max())
        return torch.arange(width, device=self.lengths.device) < self.lengths.unsqueeze(1)

    @cached_property
    def places(self) -> Tensor:
        """Where each token stands in its sentence: (tokens,)."""
        return torch.arange(self.real.size(1), device=self.lengths.device).expand_as(self.real)[self.real]

    def side_by_side(self, x: Tensor) -> Tensor:
        """(heads, tokens, size) -> (sentences, heads, width, size), padded with zeros."""
        apart = x.new_zeros(*self.real.shape, x.size(0), x.size(-1))
        return apart.index_put((self.real,), x.transpose(0, 1)).transpose(1, 2)

    def end_to_end(self, x: Tensor) -> Tensor:
        """(sentences, heads, width, size) -> (heads, tokens, size): undoes `side_by_side`."""
        return x.transpose(1, 2)[self.real].transpose(0, 1)


@dataclass(frozen=True)
class Apart:
    """A mask for sentences end to end: a token may look at the keys of its own sentence.

    It stands where a boolean mask stands; queries and keys are then (heads, tokens, size).
    """

    queries: Ends
    keys: Ends
    causal: bool = False

    def mask(self) -> Tensor:
        """The same as a boolean mask for sentences side by side: (sentences, 1, query, key)."""
        may_look = self.keys.real.unsqueeze(1)
        order = causal_mask(self.queries.real.size(1), device=may_look.device) if self.causal else None
        seen = combine(may_look, order)
        assert seen is not None
        return seen.unsqueeze(1)


@dataclass
class Noted:
    """What is to be known of an attention within sentences besides its result; filled in while it looks."""

    keys: Tensor | None = None
    """(tokens, size): the mean of the heads."""
    received: Tensor | None = None
    """(tokens,): the attention each key got from its sentence, mean over the heads; 1 is fair."""


def attend_apart(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    apart: Apart,
    dropout: float = 0.0,
    *,
    bias: Tensor | None = None,
    noted: Noted | None = None,
) -> Tensor | None:
    """Scaled dot-product attention within sentences, (heads, tokens, size) all; None where there is no kernel.

    `bias` (tokens,) is added to the scores of each key. Its plain twin is attention over the sentences side by
    side, with `Apart.mask`.
    """
    fits = all(
        each.dtype == torch.float32 and each.device.type == "cpu" and each.dim() == 3 and in_rows(each)
        for each in (query, keys, values)
    )
    if not fits or query.size(-1) % 8 or values.size(-1) != query.size(-1) or kernels() is None:
        return None
    received = keys.new_zeros(keys.size(1)) if noted is not None else None
    mixed = _AttendApart.apply(query, keys, values, apart, dropped_of(dropout), bias, received)  # type: ignore[no-untyped-call]
    if noted is not None and received is not None:
        noted.received = received / len(keys)
    return cast(Tensor, mixed)


def dropped_of(probability: float) -> int:
    """How many of 256 byte values mean that an element is dropped."""
    return min(255, max(1, round(probability * 256))) if probability else 0


def in_rows(x: Tensor) -> bool:
    """Whether a token's heads lie next to each other: x (heads, tokens, size) is a view of (tokens, ...)."""
    return x.stride(2) == 1 and (x.stride(0) == x.size(2) or x.size(0) == 1)


class _AttendApart(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        apart: Apart,
        dropped: int,
        bias: Tensor | None,
        received: Tensor | None,
    ) -> Tensor:
        native = kernels()
        assert native is not None
        heads, tokens, size = query.shape
        ctx.asked = Asked(
            *map(address, (query, keys, values)),
            *(each.stride(1) for each in (query, keys, values)),
            address(apart.queries.start),
            address(apart.keys.start),
            len(apart.queries.lengths),
            heads,
            size,
            apart.causal,
            dropped,
            size**-0.5,
            int(torch.randint(2**62, ())) if dropped else 0,
            None if bias is None else address(bias),
            None if received is None else address(received),
        )
        out, norms = query.new_empty(tokens, heads, size), query.new_empty(tokens, heads)
        native.attend_apart(ctypes.byref(ctx.asked), address(out), address(norms))
        ctx.kept = apart, bias, received  # the kernel reads from them, on the way back too
        ctx.save_for_backward(query, keys, values, out, norms)
        return out.transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        native = kernels()
        assert native is not None
        query, keys, values, out, norms = ctx.saved_tensors
        gradient = upstream[0].transpose(0, 1).contiguous()
        of_query, of_keys, of_values = (
            each.new_empty(each.size(1), each.size(0), each.size(2)) for each in (query, keys, values)
        )
        native.attend_apart_backward(
            ctypes.byref(ctx.asked),
            *map(address, (out, norms, gradient, of_query, of_keys, of_values)),
            *(each.size(0) * each.size(2) for each in (query, keys)),
        )
        found = (each.transpose(0, 1) for each in (of_query, of_keys, of_values))
        return (*found, None, None, None, None)
