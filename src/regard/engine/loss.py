"""Output projection and label-smoothed loss, fused: memory does not grow with batch x vocabulary.

Projection, softmax, label smoothing and their gradient are done while a block of rows is in the cache; the
gradient is written in the forward pass, so there is no second pass over the vocabulary. `loss.SmoothedKL` on
projected rows is the plain twin it is tested against.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor

from regard.engine.library import data_ptr, first_order, library, optional_ptr
from regard.engine.plan import tensors_supported

ROWS = 512
"""Rows a block: large enough for the matrix product, small enough to stay near the processor."""


def smoothed_kl(
    hidden: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, *, padding: int, smoothing: float
) -> Tensor:
    """The divergence from the smoothed targets, summed over the tokens.

    hidden (tokens, size), weight (vocabulary, size), bias (vocabulary,), gold (tokens,) without padding.
    """
    return cast(Tensor, _BlockLoss.apply(hidden, weight, bias, gold, padding, smoothing, None))  # type: ignore[no-untyped-call]


def twin_kl(
    hidden: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, *, padding: int, smoothing: float, r_drop: float
) -> Tensor:
    """R-Drop (Wu et al. 2021): the mean of two passes' divergences and `r_drop` times how far they are apart.

    hidden (2 tokens, size) holds one pass after the other; the distance is half of KL(p, q) + KL(q, p).
    """
    return cast(Tensor, _BlockLoss.apply(hidden, weight, bias, gold, padding, smoothing, r_drop))  # type: ignore[no-untyped-call]


class _BlockLoss(torch.autograd.Function):
    """One pass over the rows, or with `r_drop` two, one after the other in `hidden`."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        gold: Tensor,
        padding: int,
        smoothing: float,
        r_drop: float | None,
    ) -> Tensor:
        tokens, vocabulary = len(gold), weight.size(0)
        passes = 1 if r_drop is None else 2
        sure, spread = 1 - smoothing, smoothing / (vocabulary - 2)
        wants_gradient = any(ctx.needs_input_grad)
        grad_hidden = torch.empty_like(hidden) if wants_gradient else None
        grad_weight = torch.zeros_like(weight) if wants_gradient else None
        grad_bias = torch.zeros_like(bias) if wants_gradient else None
        total = hidden.new_zeros((), dtype=torch.float64)
        a_block = ROWS // passes
        room = hidden.new_empty(passes, min(a_block, tokens), vocabulary)
        native = tensors_supported(room, bias)  # what the kernels read and write
        if native and tokens:
            low, high = gold.aminmax()
            if int(low) < 0 or int(high) >= vocabulary:
                raise ValueError(
                    f"target token ids from {int(low)} to {int(high)} in a vocabulary of {vocabulary:,}"
                )
        for first in range(0, tokens, a_block):
            last = min(first + a_block, tokens)
            parts = [slice(number * tokens + first, number * tokens + last) for number in range(passes)]
            scores = [  # (rows, vocabulary) each, still without bias
                torch.mm(hidden[part], weight.T, out=place[: last - first])
                for part, place in zip(parts, room, strict=True)
            ]
            token = gold[first:last]
            if r_drop is None:
                block = block_native if native else block_in_torch
                total += block(scores[0], bias, token, padding, sure, spread, grad_bias)
            else:
                twins = twins_native if native else twins_in_torch
                total += twins(scores, bias, token, padding, sure, spread, r_drop, grad_bias)
            if grad_hidden is not None and grad_weight is not None:
                for part, gradient in zip(parts, scores, strict=True):
                    torch.mm(gradient, weight, out=grad_hidden[part])
                    grad_weight.addmm_(gradient.T, hidden[part])
        total += tokens * entropy_term(smoothing, vocabulary)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total.to(hidden.dtype)

    @staticmethod
    @first_order
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return *(each * upstream[0] for each in ctx.saved_tensors), None, None, None, None


def twins_in_torch(
    both: list[Tensor],
    bias: Tensor,
    gold: Tensor,
    padding: int,
    sure: float,
    spread: float,
    r_drop: float,
    grad_bias: Tensor | None,
) -> Tensor:
    """`block_in_torch` for two passes and their distance; both become gradients if one is wanted."""
    logs = [torch.log_softmax(scores + bias, -1) for scores in both]
    p, q = (each.exp() for each in logs)
    apart = logs[0] - logs[1]
    ahead, back = (p * apart).sum(-1, keepdim=True), (q * -apart).sum(-1, keepdim=True)
    ones = None if grad_bias is None else torch.zeros_like(bias)
    loss = sum(block_in_torch(scores, bias, gold, padding, sure, spread, ones) for scores in both) / 2
    if grad_bias is not None and ones is not None:
        both[0].mul_(0.5).add_(0.5 * r_drop * (p * (apart - ahead) + p - q))
        both[1].mul_(0.5).add_(0.5 * r_drop * (q * (-apart - back) + q - p))
        grad_bias += both[0].sum(0) + both[1].sum(0)
    return loss + 0.5 * r_drop * (ahead + back).double().sum()


def twins_native(
    both: list[Tensor],
    bias: Tensor,
    gold: Tensor,
    padding: int,
    sure: float,
    spread: float,
    r_drop: float,
    grad_bias: Tensor | None,
) -> Tensor:
    """`twins_in_torch` while a row is in the cache."""
    losses = torch.empty(len(gold), dtype=torch.float64)
    gold, bias = gold.contiguous(), bias.contiguous()
    library().twin_rows(
        *map(data_ptr, (*both, bias, gold)),
        *both[0].shape,
        padding,
        sure,
        spread,
        r_drop,
        data_ptr(losses),
        optional_ptr(grad_bias),
    )
    return losses.sum()


def block_in_torch(
    scores: Tensor,
    bias: Tensor,
    gold: Tensor,
    padding: int,
    sure: float,
    spread: float,
    grad_bias: Tensor | None,
) -> Tensor:
    """The loss of a block, whose scores become its gradient if one is wanted; `grad_bias` is added to."""
    scores += bias
    # log q = score - lse, so every sum over log q is a sum over scores and one over lse.
    lse = scores.logsumexp(-1)
    gold_score = scores.gather(1, gold.unsqueeze(1)).squeeze(1)
    mean_part = scores.sum(-1) - scores[:, padding] - (scores.size(1) - 1) * lse
    loss = -((sure - spread) * (gold_score - lse) + spread * mean_part).double().sum()
    if grad_bias is not None:
        scores.sub_(lse.unsqueeze(1)).exp_()  # softmax, in place
        scores -= spread
        scores[:, padding] += spread
        scores[torch.arange(len(gold), device=gold.device), gold] -= sure - spread
        grad_bias += scores.sum(0)
    return loss


def block_native(
    scores: Tensor,
    bias: Tensor,
    gold: Tensor,
    padding: int,
    sure: float,
    spread: float,
    grad_bias: Tensor | None,
) -> Tensor:
    """`block_in_torch` in two passes over the scores instead of eight."""
    losses = torch.empty(len(gold), dtype=torch.float64)
    gold, bias = gold.contiguous(), bias.contiguous()
    library().smoothed_rows(
        *map(data_ptr, (scores, bias, gold)),
        *scores.shape,
        padding,
        sure,
        spread,
        data_ptr(losses),
        optional_ptr(grad_bias),
    )
    return losses.sum()


def entropy_term(smoothing: float, vocabulary: int) -> float:
    """sum of t log t over one smoothed target: what makes a cross entropy a divergence."""
    gold = (1 - smoothing) * math.log(1 - smoothing) if smoothing < 1 else 0.0
    rest = smoothing * math.log(smoothing / (vocabulary - 2)) if smoothing > 0 else 0.0
    return gold + rest
