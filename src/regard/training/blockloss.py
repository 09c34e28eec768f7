"""The last layer and its loss in one function, block by block: memory does not grow with batch x vocabulary.

Projection, softmax, label smoothing and their gradient are done while a block of rows is in the cache; the
gradient is written in the forward pass, so there is no second pass over the vocabulary. `loss.SmoothedKL` on
projected rows is the plain twin it is tested against.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor

ROWS = 512
"""Rows a block: large enough for the matrix product, small enough to stay near the processor."""


def smoothed_kl(
    hidden: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, *, padding: int, smoothing: float
) -> Tensor:
    """The divergence from the smoothed targets, summed over the tokens.

    hidden (tokens, size), weight (vocabulary, size), bias (vocabulary,), gold (tokens,) without padding.
    """
    return cast(Tensor, _BlockLoss.apply(hidden, weight, bias, gold, padding, smoothing))  # type: ignore[no-untyped-call]


class _BlockLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, padding: int, smoothing: float
    ) -> Tensor:
        vocabulary = weight.size(0)
        spread = smoothing / (vocabulary - 2)
        wants_gradient = any(ctx.needs_input_grad)
        grad_hidden = torch.empty_like(hidden) if wants_gradient else None
        grad_weight = torch.zeros_like(weight) if wants_gradient else None
        grad_bias = torch.zeros_like(bias) if wants_gradient else None
        total = hidden.new_zeros((), dtype=torch.float64)
        for first in range(0, len(gold), ROWS):
            last = min(first + ROWS, len(gold))
            h, token = hidden[first:last], gold[first:last]
            scores = torch.addmm(bias, h, weight.T)  # (rows, vocabulary)
            # log q = score - lse, so every sum over log q is a sum over scores and one over lse.
            lse = scores.logsumexp(-1)
            gold_score = scores.gather(1, token.unsqueeze(1)).squeeze(1)
            mean_part = scores.sum(-1) - scores[:, padding] - (vocabulary - 1) * lse
            total -= ((1 - smoothing - spread) * (gold_score - lse) + spread * mean_part).sum()
            if grad_hidden is not None and grad_weight is not None and grad_bias is not None:
                gradient = scores.sub_(lse.unsqueeze(1)).exp_()  # softmax, in place
                gradient -= spread
                gradient[:, padding] += spread
                gradient[torch.arange(len(token)), token] -= 1 - smoothing - spread
                torch.mm(gradient, weight, out=grad_hidden[first:last])
                grad_weight.addmm_(gradient.T, h)
                grad_bias += gradient.sum(0)
        total += len(gold) * entropy_term(smoothing, vocabulary)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total.to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        scale = upstream[0]
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        return grad_hidden * scale, grad_weight * scale, grad_bias * scale, None, None, None


def entropy_term(smoothing: float, vocabulary: int) -> float:
    """sum of t log t over one smoothed target: what makes a cross entropy a divergence."""
    gold = (1 - smoothing) * math.log(1 - smoothing) if smoothing < 1 else 0.0
    rest = smoothing * math.log(smoothing / (vocabulary - 2)) if smoothing > 0 else 0.0
    return gold + rest
