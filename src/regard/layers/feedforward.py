"""The position-wise network: each token thinks by itself about what it has just seen."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.heads import projection
from regard.engine import address, in_c, kernels, laid_out, product
from regard.layers.dropout import Dropout, chance

Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu-tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


class FeedForward(nn.Module):
    """d_model -> d_ff -> d_model with ReLU, GELU or SiLU between, or gated: silu(W_g x) * (W x) (SwiGLU).

    "gelu-tanh" is GELU by the tanh that is close to it, as GPT has it (Hendrycks and Gimpel 2016).
    SwiGLU has a third matrix (Shazeer 2020); give it 2/3 of the d_ff for the same number of parameters.
    """

    def __init__(self, d_model: int, d_ff: int, activation: Activation = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        if activation not in ("swiglu", *ACTIVATIONS):
            raise ValueError(f"activation {activation!r} is none of {', '.join(ACTIVATIONS)}, swiglu")
        self.activation = activation
        self.widen = projection(d_model, d_ff)
        self.gate = projection(d_model, d_ff) if activation == "swiglu" else None
        self.narrow = projection(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., d_model) -> (..., d_model)."""
        if self.activation == "relu" and in_c(x):
            return cast(Tensor, self.narrow(widened(x, self.widen, self.dropout.bytes)))
        if self.activation == "gelu-tanh" and not self.dropout.active and in_c(x):
            return cast(Tensor, self.narrow(widened_gelu(x, self.widen)))
        wide = self.widen(x)
        if self.gate is not None:
            wide = functional.silu(self.gate(x)) * wide
        else:
            wide = ACTIVATIONS[self.activation](wide)
        return cast(Tensor, self.narrow(self.dropout(wide)))


def widened(x: Tensor, widen: nn.Linear, bytes_dropped: int, seed: int | None = None) -> Tensor:
    """dropout(relu(widen(x))), bias, ReLU and dropout in one pass by the kernel."""
    seed = seed if seed is not None else chance() if bytes_dropped else 0
    flat = x.view(-1, x.size(-1))
    out = cast(Tensor, _Widened.apply(flat, widen.weight, widen.bias, bytes_dropped, seed))  # type: ignore[no-untyped-call]
    return out.view(*x.shape[:-1], out.size(-1))


def widened_gelu(x: Tensor, widen: nn.Linear) -> Tensor:
    """gelu(widen(x)) by the tanh, bias and GELU in one pass by the kernel."""
    flat = x.view(-1, x.size(-1))
    out = cast(Tensor, _WidenedGelu.apply(flat, widen.weight, widen.bias))  # type: ignore[no-untyped-call]
    return out.view(*x.shape[:-1], out.size(-1))


class _WidenedGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        native = kernels()
        assert native is not None
        inner = product(x, laid_out(weight), len(weight))
        out = torch.empty_like(inner)
        native.gelu(*map(address, (inner, bias, out)), *out.shape)
        ctx.save_for_backward(x, weight, inner)
        return out

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        native = kernels()
        assert native is not None
        x, weight, inner = ctx.saved_tensors
        gradient = upstream[0].contiguous()
        of_inner, of_bias = torch.empty_like(inner), inner.new_empty(inner.size(1))
        native.gelu_backward(*map(address, (gradient, inner, of_inner, of_bias)), *inner.shape)
        of_x = product(of_inner, laid_out(weight, turned=True), weight.size(1))
        return of_x, of_inner.T @ x, of_bias


class _Widened(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, bytes_dropped: int, seed: int) -> Tensor:
        native = kernels()
        assert native is not None
        out = product(x, laid_out(weight), len(weight))
        native.relu_dropped(address(out), address(bias), *out.shape, bytes_dropped, seed)
        ctx.save_for_backward(x, weight, out)
        ctx.bytes_dropped = bytes_dropped
        return out

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        native = kernels()
        assert native is not None
        x, weight, out = ctx.saved_tensors
        gradient = upstream[0].contiguous()
        inner, of_bias = torch.empty_like(out), out.new_empty(out.size(1))
        native.relu_dropped_backward(
            *map(address, (gradient, out, inner, of_bias)), *out.shape, ctx.bytes_dropped
        )
        of_x = product(inner, laid_out(weight, turned=True), weight.size(1))
        return of_x, inner.T @ x, of_bias, None, None
