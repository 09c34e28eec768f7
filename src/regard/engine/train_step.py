"""Token loss of a batch of sentence pairs with its gradient: the encoder-decoder there and back in one call.

Each thread takes its own sentences through all layers and waits for the others only to add up the gradients.
The plain twin is `smoothed_kl` over `Transformer.hidden`, which synchronises some hundred times a step.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.engine.library import data_ptr, first_order, library, optional_ptr
from regard.engine.loss import entropy_term
from regard.engine.ops import draw_seed
from regard.engine.pack import SequenceOffsets
from regard.engine.plan import Plan, Stack, Sublayer, supports
from regard.engine.structs import Lesson, Side
from regard.engine.structs import Sublayer as SublayerStruct
from regard.nn import Learned, Sinusoidal
from regard.nn.transformer import Transformer

FEED_FORWARD, SELF_ATTENTION, CROSS_ATTENTION = range(3)
"""The kinds of sublayers, as learning.c counts them."""


@dataclass(frozen=True)
class PairBatch:
    """Token ids (batch, length) of sources, of targets shifted right and of the targets, padded at the end."""

    source: Tensor
    target: Tensor
    gold: Tensor


def fused_token_loss(
    model: nn.Module, batch: PairBatch, *, padding: int, smoothing: float, r_drop: float = 0.0
) -> Tensor | None:
    """The label-smoothed divergence of a batch, summed over its tokens; None where the plan refuses it.

    With `r_drop` (Wu et al. 2021) that of two passes, and their distance. The gradient is computed with it.

    Raises:
        ValueError: A token id is outside the vocabulary.
        MemoryError: There is not enough memory for this batch.
    """
    if not torch.is_grad_enabled() or batch.source.device.type != "cpu":
        return None
    plan = supports(model, "training step")
    if plan is None:
        return None
    assert isinstance(model, Transformer)
    read = SequenceOffsets.from_padded(batch.source, padding)
    written = SequenceOffsets.from_padded(batch.target, padding)
    same = torch.equal(written.nonpad, batch.gold != padding)
    if not same or not (read.lengths.all() & written.lengths.all()):
        return None  # something other than non-empty sentences shifted by one
    source, target, gold = batch.source[read.nonpad], batch.target[written.nonpad], batch.gold[written.nonpad]
    check_ids(source, len(model.source_embedding.weight), "source")
    check_ids(target, len(model.target_embedding.weight), "target")
    check_ids(gold, model.output_bias.numel(), "target")
    positions = position_table(plan.stacks[0], read), position_table(plan.stacks[1], written)
    sentences = len(read.lengths)
    if r_drop:  # both passes at once: the batch twice, with dropout of its own each
        source, target = torch.cat((source, source)), torch.cat((target, target))
        read, written = (SequenceOffsets(each.lengths.repeat(2)) for each in (read, written))
    packed = PackedPairs(sentences, (source, target), (read, written), positions, gold)
    settings = LossSettings(padding, smoothing, r_drop)
    return cast(Tensor, _TokenLoss.apply(model, plan, packed, settings, *model.parameters()))  # type: ignore[no-untyped-call]


def check_ids(ids: Tensor, vocabulary: int, side: str) -> None:
    """Refuse ids outside the vocabulary, before C reads a table at them."""
    if ids.numel():
        low, high = ids.aminmax()
        if int(low) < 0 or int(high) >= vocabulary:
            wrong = int(low) if int(low) < 0 else int(high)
            raise ValueError(f"{side} token id {wrong} is outside the vocabulary of {vocabulary:,}")


def position_table(stack: Stack, ends: SequenceOffsets) -> Tensor:
    """What is added to the embeddings at each position, as far as these sentences reach: (length, d_model)."""
    length = int(ends.lengths.max())
    if isinstance(stack.position, Learned):
        stack.position.check_length(length)
        return stack.position.table
    return cast(Sinusoidal, stack.position).at(0, length).contiguous()


@dataclass(frozen=True)
class PackedPairs:
    """A batch as the kernel takes it: packed, source and target."""

    sentences: int
    ids: tuple[Tensor, Tensor]
    ends: tuple[SequenceOffsets, SequenceOffsets]
    positions: tuple[Tensor, Tensor]
    gold: Tensor


@dataclass(frozen=True)
class LossSettings:
    padding: int
    smoothing: float
    r_drop: float


class _TokenLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        model: Transformer,
        plan: Plan,
        batch: PackedPairs,
        settings: LossSettings,
        *parameters: Tensor,
    ) -> Tensor:
        layout = GradientLayout(parameters)
        loss, gradient = torch.empty((), dtype=torch.float64), torch.empty(layout.total)
        request = step_request(model, plan, batch, settings, layout)
        library().learn(ctypes.byref(request), data_ptr(loss), data_ptr(gradient))
        ctx.save_for_backward(gradient)
        ctx.shapes = [each.shape for each in parameters]
        words = model.output_bias.numel()
        return (loss + len(batch.gold) * entropy_term(settings.smoothing, words)).float()

    @staticmethod
    @first_order
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        parts = (gradient * upstream[0]).split([shape.numel() for shape in ctx.shapes])
        return (
            None,
            None,
            None,
            None,
            *(part.view(shape) for part, shape in zip(parts, ctx.shapes, strict=True)),
        )


class GradientLayout:
    """Where the gradient of each parameter lies in one tensor of all."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.offsets: dict[int, int] = {}
        self.total = 0
        for each in parameters:
            self.offsets[data_ptr(each)] = self.total
            self.total += each.numel()

    def __getitem__(self, parameter: Tensor | None) -> int:
        """Below 0 for what is not a parameter."""
        return -1 if parameter is None else self.offsets.get(data_ptr(parameter), -1)


def step_request(
    model: Transformer, plan: Plan, batch: PackedPairs, settings: LossSettings, layout: GradientLayout
) -> Lesson:
    """The kernel's arguments; every tensor named in them must outlive the call."""
    sublayers = [each for stack in plan.stacks for each in stack.sublayers]
    attention, network = sublayers[0], next(each for each in sublayers if each.kind == "feed_forward")
    words, width = model.output[0].shape
    embeddings = (model.source_embedding.weight, model.target_embedding.weight)
    sides = zip(plan.stacks, embeddings, batch.ids, batch.ends, batch.positions, strict=True)
    return Lesson(
        *(stack_struct(*each, layout) for each in sides),
        data_ptr(batch.gold),
        *map(data_ptr, model.output),
        *(layout[each] for each in model.output),
        layout.total,
        batch.sentences,
        2 if settings.r_drop else 1,
        width,
        attention.heads,
        network.d_ff,
        words,
        settings.padding,
        attention.dropout,
        network.inner_dropout,
        attention.inner_dropout,
        attention.eps,
        model.source_embedding.scale,
        1 - settings.smoothing,
        settings.smoothing / (words - 2),
        settings.r_drop,
    )


def stack_struct(
    stack: Stack, table: Tensor, ids: Tensor, ends: SequenceOffsets, positions: Tensor, layout: GradientLayout
) -> Side:
    """The encoder or the decoder; seeds are drawn in the order of the layers."""
    norm, sublayers = stack.norm, list(stack.sublayers)
    assert norm is not None
    seed = draw_seed(sublayers[0].dropout)
    return Side(
        *map(data_ptr, (ids, ends.offsets, table, positions)),
        layout[table],
        layout[positions],
        (data_ptr(norm.weight), data_ptr(norm.bias)),
        (layout[norm.weight], layout[norm.bias]),
        seed,
        len(sublayers),
        (SublayerStruct * len(sublayers))(*(sublayer_struct(each, layout) for each in sublayers)),
    )


def sublayer_struct(sublayer: Sublayer, layout: GradientLayout) -> SublayerStruct:
    kind = {"self": SELF_ATTENTION, "cross": CROSS_ATTENTION, "feed_forward": FEED_FORWARD}[sublayer.kind]
    norm = sublayer.norm
    tensors = [
        cast(Tensor | None, each) for layer in sublayer.projections for each in (layer.weight, layer.bias)
    ]
    return SublayerStruct(
        kind,
        draw_seed(sublayer.inner_dropout),
        draw_seed(sublayer.dropout),
        (data_ptr(norm.weight), data_ptr(norm.bias)),
        tuple(map(optional_ptr, tensors)),
        (layout[norm.weight], layout[norm.bias]),
        tuple(layout[each] for each in tensors),
    )
