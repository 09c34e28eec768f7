"""The position-wise network with the norm before it and the path around it, as one pass over the rows.

Its plain twin is `Residual` with the norm before: a norm, two products, a ReLU, two dropouts and an addition,
each a pass of its own over all rows, and most of them a call that waits for Python.
"""

import ctypes
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.engine import Around, Thought, address, in_c, kernels, laid_out
from regard.layers.dropout import Dropout, chance
from regard.layers.feedforward import FeedForward


def thought(x: Tensor, norm: nn.Module, network: FeedForward, dropout: Dropout) -> Tensor | None:
    """x + dropout(network(norm(x))) while training on a CPU; None where it is not for the kernel to do."""
    if (
        network.activation != "relu"
        or not isinstance(norm, nn.LayerNorm)
        or not torch.is_grad_enabled()
        or not in_c(x, network.widen.weight, network.narrow.weight, norm.weight)
        or watched(norm, network, network.widen, network.narrow, network.dropout, dropout)
    ):
        return None
    inside, around = network.dropout.bytes, dropout.bytes
    seeds = chance() if inside else 0, chance() if around else 0  # drawn in the twin's order
    widen, narrow = network.widen, network.narrow
    weights = (norm.weight, norm.bias, widen.weight, widen.bias, narrow.weight, narrow.bias)
    flat = x.view(-1, x.size(-1))
    out = _Thought.apply(flat, *weights, (inside, seeds[0]), (around, seeds[1], norm.eps))  # type: ignore[no-untyped-call]
    return cast(Tensor, out).view(x.shape)


def watched(*modules: nn.Module) -> bool:
    """Whether somebody wants to be told of what goes through one of them."""
    return any(each._forward_hooks or each._forward_pre_hooks or each._backward_hooks for each in modules)


class _Thought(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        norm: Tensor,
        norm_bias: Tensor,
        widen: Tensor,
        widen_bias: Tensor,
        narrow: Tensor,
        narrow_bias: Tensor,
        inside: tuple[int, int],
        around: tuple[int, int, float],
    ) -> Tensor:
        native = kernels()
        assert native is not None
        ctx.inside, ctx.around = inside, around
        wider, narrower = laid_out(widen), laid_out(narrow)
        asked = Thought(
            Around(*map(address, (x, norm, norm_bias)), *x.shape, *around),
            *map(address, (wider, narrower, widen_bias, narrow_bias)),
            len(widen),
            *inside,
        )
        normed, wide, out = torch.empty_like(x), x.new_empty(len(x), len(widen)), torch.empty_like(x)
        native.think_there(ctypes.byref(asked), *map(address, (normed, wide, out)))
        ctx.save_for_backward(x, norm, norm_bias, widen, narrow, normed, wide)
        return out

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        native = kernels()
        assert native is not None
        x, norm, norm_bias, widen, narrow, normed, wide = ctx.saved_tensors
        gradient = upstream[0].contiguous()
        wider, narrower = laid_out(widen, turned=True), laid_out(narrow, turned=True)
        asked = Thought(
            Around(*map(address, (x, norm, norm_bias)), *x.shape, *ctx.around),
            *map(address, (wider, narrower)),
            None,
            None,
            len(widen),
            *ctx.inside,
        )
        of_x, of_said, of_wide = torch.empty_like(x), torch.empty_like(x), torch.empty_like(wide)
        inner, width = widen.shape
        sums = x.new_empty(inner + 3 * width)
        native.think_back(ctypes.byref(asked), *map(address, (gradient, wide, of_x, of_said, of_wide, sums)))
        of_widen_bias, of_narrow_bias, of_norm, of_norm_bias = sums.split_with_sizes([inner, *[width] * 3])
        of_weights = (of_wide.T @ normed, of_widen_bias, of_said.T @ wide, of_narrow_bias)
        return of_x, of_norm, of_norm_bias, *of_weights, None, None
