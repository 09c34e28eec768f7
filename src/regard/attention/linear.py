"""Linear maps whose products are done by our own kernel where it can."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.engine import in_c, laid_out, product


class Linear(nn.Linear):
    """`torch.nn.Linear`, equal to it but for the last bits, and sooner done on a CPU while training."""

    def forward(self, x: Tensor) -> Tensor:
        if not torch.is_grad_enabled() or not in_c(x, self.weight):
            return super().forward(x)
        return mapped(x, self.weight, self.bias)


def together(x: Tensor, maps: Sequence[nn.Module]) -> Sequence[Tensor]:
    """What each of the maps makes of x; while training on a CPU by one product, faster than several."""
    linear = [each for each in maps if isinstance(each, Linear)]
    weights: list[Tensor] = [each.weight for each in linear]
    if len(linear) < len(maps) or not torch.is_grad_enabled() or not in_c(x, *weights):
        return [each(x) for each in maps]
    biases: list[Tensor] = [
        each.weight.new_zeros(each.out_features) if each.bias is None else each.bias for each in linear
    ]
    out = mapped(x, torch.cat(weights), torch.cat(biases))
    return out.split_with_sizes([each.out_features for each in linear], -1)


def mapped(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x (..., in) times weight (out, in), plus the bias, by the kernel: (..., out)."""
    flat = x.view(-1, x.size(-1))
    out = cast(Tensor, _Linear.apply(flat, weight, bias))  # type: ignore[no-untyped-call]
    return out.view(*x.shape[:-1], out.size(-1))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, laid_out(weight), len(weight), bias)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = upstream[0].contiguous()
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = product(gradient, laid_out(weight, turned=True), weight.size(1))
        of_bias = gradient.sum(0) if ctx.needs_input_grad[2] else None
        return of_x, gradient.T @ x, of_bias  # PyTorch's product is the faster one for this shape
