"""Token loss of a batch and its gradient in one native call, for translation and language models.

Each thread computes the forward and backward pass of chunks of its own sequences, from the embeddings to the
loss; the threads synchronize only to add up their gradients. The plain reference is
`training.objectives.SmoothedKL` on the model's logits.
"""

import ctypes
import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.engine.header import header
from regard.engine.library import data_ptr, library, refuse_second_order
from regard.engine.plan import Stack, supports
from regard.engine.stack import GradientLayout, StackSpec, StackStructs, max_length
from regard.nn import Learned, Packed, Sinusoidal
from regard.nn.gpt import GptLanguageModel
from regard.nn.transformer import Transformer

C = header().structs


def translation_loss(
    model: nn.Module,
    source: Packed,
    target: Packed,
    labels: Tensor,
    *,
    padding: int,
    smoothing: float,
    r_drop: float = 0.0,
) -> Tensor | None:
    """Label-smoothed divergence of a batch of sentence pairs, summed over the labels.

    Args:
        model: The model.
        source: Source ids.
        target: Target ids, shifted right.
        labels: (target tokens,), the ids to predict.
        padding: The id that gets no probability from label smoothing.
        smoothing: Label smoothing: total probability of the other tokens.
        r_drop: Weight of the R-Drop term between two passes (Wu et al. 2021).

    Returns:
        A scalar; None if the plan refuses the model.

    Raises:
        ValueError: A token id is outside the vocabulary, or a sequence is longer than the model allows.
        MemoryError: There is not enough memory for this batch.
    """
    plan = supports(model, "token loss")
    if plan is None or plan.kind != "encoder-decoder" or source.device.type != "cpu":
        return None
    assert isinstance(model, Transformer)
    weight, bias = model.output
    check_ids(source.values, len(model.source_embedding.weight), "source")
    check_ids(target.values, len(model.target_embedding.weight), "target")
    check_ids(labels, len(weight), "target")
    spec, tables = StackSpec(), []
    scales = []
    for stack, embedding, batch in zip(
        plan.stacks, (model.source_embedding, model.target_embedding), (source, target), strict=True
    ):
        tables += [spec.register(embedding.weight), spec.register(position_table(stack, batch.max_length))]
        scales.append(embedding.scale)
        spec.add(stack, stack.dropout)
    tables += [spec.register(weight), spec.register(bias)]
    if r_drop:
        source, target = source.twice(), target.twice()
    return _loss(spec, tables, scales, source, target, labels, padding, smoothing, r_drop)


def language_model_loss(model: nn.Module, text: Packed, labels: Tensor) -> Tensor | None:
    """Cross entropy of the next token, summed over `labels` (tokens,); None if the plan refuses the model.

    Raises:
        ValueError: A token id is outside the vocabulary, or a text is longer than the model allows.
        MemoryError: There is not enough memory for this batch.
    """
    plan = supports(model, "token loss")
    if plan is None or plan.kind != "GPT" or text.device.type != "cpu":
        return None
    assert isinstance(model, GptLanguageModel)
    (stack,), weight = plan.stacks, model.gpt.token_embedding.weight
    check_ids(text.values, len(weight), "token")
    check_ids(labels, len(weight), "next token")
    spec = StackSpec()
    tables = [-1, -1, spec.register(weight), spec.register(position_table(stack, text.max_length))]
    spec.add(stack, stack.dropout)
    return _loss(spec, [*tables, tables[2], -1], [1.0, 1.0], None, text, labels, 0, 0.0, 0.0)


def _loss(
    spec: StackSpec,
    tables: list[int],
    scales: list[float],
    source: Packed | None,
    target: Packed,
    labels: Tensor,
    padding: int,
    smoothing: float,
    r_drop: float,
) -> Tensor:
    vocabulary = len(spec.tensors[tables[4]])
    numbers = [*scales, 1 - smoothing, smoothing / (vocabulary - 2) if smoothing else 0.0, r_drop]
    with_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in spec.tensors)
    if len(labels) * (2 if r_drop else 1) != len(target.values):
        raise ValueError(f"{len(labels)} labels for {len(target.values)} target tokens")
    loss, _ = token_loss(
        None if source is None else source.values, None if source is None else source.offsets, target.values,
        target.offsets, labels, spec.tensors, spec.settings, spec.numbers, spec.seeds(), tables, numbers,
        padding, with_gradient,
    )  # fmt: skip
    return cast(Tensor, loss + len(labels) * entropy_term(smoothing, vocabulary)).float()


def check_ids(ids: Tensor, vocabulary: int, side: str) -> None:
    """Raise ValueError for ids outside the vocabulary, before C uses them as indices."""
    if ids.numel():
        low, high = ids.aminmax()
        if int(low) < 0 or int(high) >= vocabulary:
            wrong = int(low) if int(low) < 0 else int(high)
            raise ValueError(f"{side} token id {wrong} is outside the vocabulary of {vocabulary:,}")


def position_table(stack: Stack, length: int) -> Tensor | None:
    """The positions added to the embeddings, (length or more, d_model); None if none are."""
    position = stack.position
    if isinstance(position, Learned):
        position.check_length(length)
        return position.table
    if not isinstance(position, Sinusoidal):
        return None
    return position.table if len(position.table) >= length else position.at(0, length).contiguous()


@torch.library.custom_op("regard::token_loss", mutates_args=())
def token_loss(
    source: Tensor | None,
    source_offsets: Tensor | None,
    target: Tensor,
    target_offsets: Tensor,
    labels: Tensor,
    tensors: Sequence[Tensor],
    settings: Sequence[int],
    numbers: Sequence[float],
    seeds: Sequence[int],
    tables: Sequence[int],
    loss_numbers: Sequence[float],
    padding: int,
    with_gradient: bool,
) -> tuple[Tensor, Tensor]:
    """The loss without its constant part (float64), and the gradients of all tensors in one array, or empty.

    Args:
        tables: Indices of source embedding and positions, target embedding and positions, output weight and
            bias.
        loss_numbers: Scales of the two embeddings, confidence, off value, R-Drop weight.
    """
    source_scale, target_scale, confidence, off_value, r_drop = loss_numbers
    length = max(max_length(target_offsets), 0 if source_offsets is None else max_length(source_offsets))
    structs = StackStructs(tensors, settings, numbers, seeds, length)
    if source is None:
        structs.stacks.insert(0, C["Stack"]())
    passes = 2 if r_drop else 1
    loss, gradient = (
        torch.empty((), dtype=torch.float64),
        torch.empty(structs.layout.total if with_gradient else 0),
    )
    task = C["TokenLoss"](
        *structs.stacks,
        C["Embedding"](*structs.pointers(*tables[:2]), source_scale),
        C["Embedding"](*structs.pointers(*tables[2:4]), target_scale),
        None if source is None else data_ptr(source),
        *map(data_ptr, (target, labels)),
        None if source_offsets is None else data_ptr(source_offsets),
        data_ptr(target_offsets),
        (len(target_offsets) - 1) // passes,
        passes,
        C["Linear"](*structs.pointers(*tables[4:])),
        len(tensors[tables[4]]),
        padding,
        structs.layout.total,
        confidence,
        off_value,
        r_drop,
    )
    library().token_loss(ctypes.byref(task), data_ptr(loss), data_ptr(gradient) if with_gradient else None)
    return loss, gradient


@token_loss.register_fake
def _(
    source: Tensor | None,
    source_offsets: Tensor | None,
    target: Tensor,
    target_offsets: Tensor,
    labels: Tensor,
    tensors: Sequence[Tensor],
    settings: Sequence[int],
    numbers: Sequence[float],
    seeds: Sequence[int],
    tables: Sequence[int],
    loss_numbers: Sequence[float],
    padding: int,
    with_gradient: bool,
) -> tuple[Tensor, Tensor]:
    size = GradientLayout(tensors).total if with_gradient else 0
    return target.new_empty((), dtype=torch.float64), target.new_empty(size, dtype=torch.float32)


def _save_gradient(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    tensors = inputs[5]
    ctx.layout = GradientLayout(tensors)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1], *tensors)


@refuse_second_order
def _scale_gradient(ctx: Any, upstream: Tensor, *_: Tensor | None) -> tuple[Any, ...]:
    gradient, *tensors = ctx.saved_tensors
    if not len(gradient):
        raise RuntimeError("the token loss was computed without its gradient")
    return *(None,) * 5, ctx.layout.split(gradient * upstream.float(), tensors), *(None,) * 7


token_loss.register_autograd(_scale_gradient, setup_context=_save_gradient)


def entropy_term(smoothing: float, vocabulary: int) -> float:
    """Sum of t log t over a smoothed target distribution t: divergence minus cross entropy."""
    label = (1 - smoothing) * math.log(1 - smoothing) if smoothing < 1 else 0.0
    rest = smoothing * math.log(smoothing / (vocabulary - 2)) if smoothing > 0 else 0.0
    return label + rest
