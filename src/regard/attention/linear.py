"""A linear map whose products are done by our own kernel where it can."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.native import in_c, laid_out, product


class Linear(nn.Linear):
    """`torch.nn.Linear`, equal to it but for the last bits, and sooner done on a CPU while training."""

    def forward(self, x: Tensor) -> Tensor:
        if not torch.is_grad_enabled() or not in_c(x, self.weight):
            return super().forward(x)
        flat = x.view(-1, x.size(-1))
        out = cast(Tensor, _Linear.apply(flat, self.weight, self.bias))  # type: ignore[no-untyped-call]
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
