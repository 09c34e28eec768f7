"""Fused output projection and label-smoothed cross entropy: memory does not grow with batch x vocabulary.

Projection, softmax, label smoothing and their gradient are computed while a block of rows is in the cache; the
forward pass computes the gradient too, so there is no second pass over the vocabulary. The plain reference is
`SmoothedKL` on logits. On other devices or with other dtypes PyTorch operations compute the same blocks.
"""

from typing import Any, cast

import torch
from torch import Tensor

from regard.engine.library import data_ptr, library, optional_ptr, refuse_second_order
from regard.engine.plan import tensors_supported
from regard.engine.token_loss import check_ids, entropy_term

ROWS = 512
"""Rows per block: enough for an efficient matrix product, few enough for the cache."""


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    *,
    padding: int = 0,
    smoothing: float = 0.0,
    r_drop: float = 0.0,
) -> Tensor:
    """Divergence of softmax(hidden weight^T + bias) from the smoothed labels, summed over the tokens.

    Args:
        hidden: (tokens, d_model); with `r_drop` (2 tokens, d_model), one pass after the other.
        weight: (vocabulary, d_model).
        bias: (vocabulary,).
        labels: (tokens,), without padding.
        padding: The id that gets no probability from label smoothing.
        smoothing: Label smoothing: total probability of the other tokens.
        r_drop: Weight of half of KL(p, q) + KL(q, p) between the two passes (Wu et al. 2021), whose losses are
            averaged.

    Returns:
        The loss, a scalar.
    """
    vocabulary = weight.size(0)
    off_value = smoothing / (vocabulary - 2) if smoothing else 0.0
    inputs = [tensor for tensor in (hidden, weight, bias) if tensor is not None]
    with_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
    loss, *_ = block_loss(
        hidden.contiguous(), weight, bias, labels, padding, 1 - smoothing, off_value, r_drop, with_gradient
    )
    return cast(Tensor, loss + len(labels) * entropy_term(smoothing, vocabulary)).to(hidden.dtype)


@torch.library.custom_op("regard::linear_cross_entropy", mutates_args=())
def block_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    padding: int,
    confidence: float,
    off_value: float,
    r_drop: float,
    with_gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss without its constant part (float64), and gradients of hidden, weight and bias, or empty."""
    tokens, vocabulary, passes = len(labels), weight.size(0), 2 if r_drop else 1
    if len(hidden) != passes * tokens:
        raise ValueError(f"{len(hidden)} hidden states for {tokens} labels and {passes} passes")
    grads = [
        torch.zeros_like(tensor) if with_gradient and tensor is not None else hidden.new_empty(0)
        for tensor in (hidden, weight, bias)
    ]
    total = hidden.new_zeros((), dtype=torch.float64)
    block = ROWS // passes
    buffers = hidden.new_empty(passes, min(block, tokens), vocabulary)
    native = tensors_supported(buffers, weight if bias is None else bias)
    if hidden.device.type == "cpu":
        check_ids(labels, vocabulary, "target")
    settings = padding, confidence, off_value, r_drop
    for first in range(0, tokens, block):
        last = min(first + block, tokens)
        parts = [slice(number * tokens + first, number * tokens + last) for number in range(passes)]
        logits = [
            torch.mm(hidden[part], weight.T, out=buffer[: last - first])
            for part, buffer in zip(parts, buffers, strict=True)
        ]
        compute = loss_native if native else loss_in_torch
        grad_bias = grads[2] if with_gradient and bias is not None else None
        total += compute(logits, bias, labels[first:last], settings, grad_bias, with_gradient)
        for part, gradient in zip(parts, logits if with_gradient else (), strict=False):
            torch.mm(gradient, weight, out=grads[0][part])
            grads[1].addmm_(gradient.T, hidden[part])
    return total, grads[0], grads[1], grads[2]


@block_loss.register_fake
def _(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    padding: int,
    confidence: float,
    off_value: float,
    r_drop: float,
    with_gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    none = hidden.new_empty(0)
    loss = hidden.new_empty((), dtype=torch.float64)
    grads = [
        torch.empty_like(tensor) if with_gradient and tensor is not None else torch.empty_like(none)
        for tensor in (hidden, weight, bias)
    ]
    return loss, grads[0], grads[1], grads[2]


def _save_gradients(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.mark_non_differentiable(*output[1:])
    ctx.has_bias, ctx.with_gradient = inputs[2] is not None, inputs[-1]
    ctx.save_for_backward(*output[1:])


@refuse_second_order
def _scale_gradients(ctx: Any, upstream: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    if not ctx.with_gradient:
        raise RuntimeError("the loss was computed without its gradient")
    hidden, weight, bias = (gradient * upstream.to(gradient.dtype) for gradient in ctx.saved_tensors)
    return hidden, weight, bias if ctx.has_bias else None, *(None,) * 6


block_loss.register_autograd(_scale_gradients, setup_context=_save_gradients)

Settings = tuple[int, float, float, float]
"""Padding id, confidence, off value, R-Drop weight."""


def loss_native(
    logits: list[Tensor],
    bias: Tensor | None,
    labels: Tensor,
    settings: Settings,
    grad_bias: Tensor | None,
    with_gradient: bool,
) -> Tensor:
    """`loss_in_torch` in C, one row at a time while it is in the cache."""
    losses = torch.empty(len(labels), dtype=torch.float64)
    labels = labels.contiguous()
    padding, confidence, off_value, r_drop = settings
    shape = *logits[0].shape, padding, confidence, off_value
    compute = library().r_drop_cross_entropy if r_drop else library().smoothed_cross_entropy
    compute(
        *map(data_ptr, logits), optional_ptr(bias), data_ptr(labels), *shape, *([r_drop] if r_drop else []),
        with_gradient, data_ptr(losses), optional_ptr(grad_bias),
    )  # fmt: skip
    return losses.sum()


def loss_in_torch(
    logits: list[Tensor],
    bias: Tensor | None,
    labels: Tensor,
    settings: Settings,
    grad_bias: Tensor | None,
    with_gradient: bool,
) -> Tensor:
    """The loss of a block; with a gradient it overwrites the logits by theirs and adds to grad_bias."""
    padding, confidence, off_value, r_drop = settings
    passes = len(logits)
    for scores in logits:
        scores += 0 if bias is None else bias
    log_probs = [scores.log_softmax(-1) for scores in logits]
    loss = log_probs[0].new_zeros((), dtype=torch.float64)
    for log_p in log_probs:
        at_label = log_p.gather(1, labels.unsqueeze(1)).squeeze(1)
        others = log_p.sum(-1) - log_p[:, padding]
        loss -= ((confidence - off_value) * at_label + off_value * others).double().sum() / passes
    gradients = []
    for log_p in log_probs:
        gradient = log_p.exp() - off_value
        gradient[:, padding] += off_value
        gradient[torch.arange(len(labels), device=labels.device), labels] -= confidence - off_value
        gradients.append(gradient / passes)
    if r_drop:
        p, q = (log_p.exp() for log_p in log_probs)
        distance = log_probs[0] - log_probs[1]
        forward, backward = (p * distance).sum(-1, keepdim=True), (q * -distance).sum(-1, keepdim=True)
        loss += 0.5 * r_drop * (forward + backward).double().sum()
        gradients[0] += 0.5 * r_drop * (p * (distance - forward) + p - q)
        gradients[1] += 0.5 * r_drop * (q * (-distance - backward) + q - p)
    if with_gradient:
        for scores, gradient in zip(logits, gradients, strict=True):
            scores.copy_(gradient)
            if grad_bias is not None:
                grad_bias += gradient.sum(0)
    return loss
