"""Search for a Transformer on a CPU without leaving C: the same translations as `search`, several times sooner.

Sentences lie end to end, no cache is ever copied (a row remembers which rows it continues), the beams of a
sentence share its source, and a row has the same bits whatever rows stand beside it. `search` is the plain
twin, and does what is asked for more rarely: prefixes, coverage, forbidden repeats.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.attention import Attention, Learned, Sinusoidal
from regard.decoding.limits import Limits
from regard.decoding.search import Hypothesis, Options
from regard.engine import Remembered, Stack, Wanted, address, kernels, laid_out
from regard.layers import DecoderBlock, EncoderBlock, FeedForward, Residual
from regard.models.ensemble import Ensemble
from regard.models.neighbours import Neighbours, Remembering
from regard.models.transformer import Decoder, Encoder, Transformer


class Lean:
    """The weights of a Transformer, or of several that are asked as one, as the kernels want them.

    Each may have neighbours, in the same order.
    """

    def __init__(
        self, models: Sequence[Transformer], longest: int, neighbours: Sequence[Neighbours | None] = ()
    ) -> None:
        self.longest = longest
        self.remembered = [
            Remembered() if each is None else each.laid_out.asked for each in neighbours or [None] * len(models)
        ]
        self.neighbours = neighbours  # whose keys the kernels read
        reading = ((each, each.source_embedding) for each in models)
        self.encoders = [LeanStack(each.encoder, of.weight, of.scale, longest) for each, of in reading]
        writing = ((each, each.target_embedding) for each in models)
        self.decoders = [
            LeanStack(each.decoder, of.weight, of.scale, longest, each.output) for each, of in writing
        ]

    def translate(
        self, sentences: Sequence[Sequence[int]], limits: Limits, options: Options
    ) -> list[list[Hypothesis]]:
        """The `nbest` translations of each sentence of ids, best first; their lengths may differ."""
        native = kernels()
        assert native is not None
        source = torch.tensor([each for ids in sentences for each in ids])
        start = torch.tensor([0, *(len(ids) for ids in sentences)]).cumsum(0).to(torch.int32)
        longest, many = min(options.longest, self.longest), (len(sentences), options.nbest)
        ids = torch.empty(*many, longest, dtype=torch.int32)
        lengths = torch.empty(many, dtype=torch.int32)
        scores, totals = torch.empty(many, dtype=torch.float64), torch.empty(many, dtype=torch.float64)
        wanted = Wanted(
            options.beam,
            options.nbest,
            longest,
            limits.begin,
            limits.end,
            len(limits.never),
            (ctypes.c_int64 * 8)(*limits.never),
            options.length_penalty,
        )
        native.translate(
            *(in_a_row([each.asked for each in stacks]) for stacks in (self.encoders, self.decoders)),
            (Remembered * len(self.remembered))(*self.remembered),
            len(self.decoders),
            ctypes.byref(wanted),
            address(source),
            address(start),
            len(sentences),
            *map(address, (ids, lengths, scores, totals)),
        )
        return [
            [
                Hypothesis(tuple(text[:length]), score, total)
                for text, length, score, total in zip(*found, strict=True)
                if length >= 0
            ]
            for found in zip(ids.tolist(), lengths.tolist(), scores.tolist(), totals.tolist(), strict=True)
        ]


class LeanStack:
    """The blocks of an encoder or a decoder, laid out."""

    def __init__(
        self,
        stack: Encoder | Decoder,
        table: Tensor,
        scale: float,
        longest: int,
        output: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        blocks = [cast(EncoderBlock | DecoderBlock, block) for block in stack.blocks]
        last = stack.norm if isinstance(stack.norm, nn.LayerNorm) else None
        self.weights = [each for block in blocks for each in weights_of(block)]
        self.weights += [None, None] if last is None else [last.weight.detach(), last.bias.detach()]
        self.pointers = (ctypes.c_void_p * len(self.weights))(*map(address_or_none, self.weights))
        self.table = table.detach().contiguous()
        self.output = None if output is None else laid_out(output[0])
        self.bias = None if output is None else output[1].detach()
        width = table.size(1)
        with torch.no_grad():
            self.places = stack.position.embed(torch.zeros(longest, width)).contiguous()
        first = blocks[0]
        self.asked = Stack(
            len(blocks),
            width,
            attention_of(first.self_attention).heads,
            cast(FeedForward, first.feed_forward.sublayer).widen.out_features,
            0 if output is None else output[0].size(0),
            first.self_attention.placement == "post",
            cast(FeedForward, first.feed_forward.sublayer).activation == "gelu-tanh",
            scale,
            cast(nn.LayerNorm, first.self_attention.norm).eps,
            address(self.table),
            ctypes.addressof(self.pointers),
            address_or_none(self.output),
            address_or_none(self.bias),
            address(self.places),
        )


def in_a_row(stacks: Sequence[Stack]) -> "ctypes.Array[Stack]":
    return (Stack * len(stacks))(*stacks)


def address_or_none(tensor: Tensor | None) -> int | None:
    return None if tensor is None else address(tensor)


def attention_of(residual: Residual) -> Attention:
    """The attention inside a residual path: cross-attention itself, or what self-attention wraps."""
    return cast(Attention, getattr(residual.sublayer, "attention", residual.sublayer))


def weights_of(block: EncoderBlock | DecoderBlock) -> list[Tensor | None]:
    """A block's weights in the order of decoding.c; matrices laid out for it, nothing for what it has not."""
    own = attention_of(block.self_attention)
    forward = cast(FeedForward, block.feed_forward.sublayer)
    cross = block.cross_attention if isinstance(block, DecoderBlock) else None
    asked = None if cross is None else attention_of(cross)
    return [
        *norm_of(block.self_attention),
        *(each for linear in (own.query, own.key, own.value, own.output) for each in linear_of(linear)),
        *(norm_of(cross) if cross else [None, None]),
        *(linear_of(asked.query) + linear_of(asked.output) if asked else [None] * 4),
        *norm_of(block.feed_forward),
        *(each for linear in (forward.widen, forward.narrow) for each in linear_of(linear)),
        *(linear_of(asked.key) + linear_of(asked.value) if asked else [None] * 4),
    ]


def norm_of(residual: Residual) -> list[Tensor | None]:
    norm = residual.norm
    assert isinstance(norm, nn.LayerNorm)
    return [norm.weight.detach(), norm.bias.detach()]


def linear_of(linear: nn.Module) -> list[Tensor | None]:
    assert isinstance(linear, nn.Linear)
    bias = cast(Tensor | None, linear.bias)
    return [laid_out(linear.weight), None if bias is None else bias.detach()]


@dataclass(frozen=True)
class _Made:
    """A model laid out, and how to notice that it is out of date."""

    modules: tuple[nn.Module, ...]
    stamp: tuple[int, ...]
    lean: Lean


_made: WeakKeyDictionary[nn.Module, _Made] = WeakKeyDictionary()


def lean(model: object, longest: int) -> Lean | None:
    """The model laid out, anew when its weights have changed; None for a model the kernels do not know."""
    members = tuple(model.members) if isinstance(model, Ensemble) else (model,)
    alone = [each.model if isinstance(each, Remembering) else each for each in members]
    neighbours = [each.neighbours if isinstance(each, Remembering) else None for each in members]
    models = [each for each in alone if isinstance(each, Transformer) and not each.training and is_known(each)]
    if len(models) < len(members):
        return None
    assert isinstance(model, nn.Module)
    known = _made.get(model)
    if known is not None and known.lean.longest == longest and known.stamp == stamp_of(known.modules):
        return known.lean
    made = Lean(models, longest, neighbours)
    modules = tuple(each for each in model.modules() if each._parameters)
    if not any(each.is_inference() for each in model.parameters()):  # of those, nobody counts the changes
        _made[model] = _Made(modules, stamp_of(modules), made)
    return made


def stamp_of(modules: tuple[nn.Module, ...]) -> tuple[int, ...]:
    """Where the parameters lie and how often they were changed."""
    return tuple(
        number
        for module in modules
        for each in module._parameters.values()
        if each is not None
        for number in (each.data_ptr(), each._version)
    )


def is_known(model: Transformer) -> bool:
    """Whether the kernels do what this model does: ReLU or GELU, positions on the embeddings, float32, CPU."""
    stacks = (model.encoder, model.decoder)
    return (
        kernels() is not None
        and all(len(stack.blocks) > 0 for stack in stacks)
        and all(isinstance(stack.position, Sinusoidal | Learned) for stack in stacks)
        and all(
            is_plain(cast(EncoderBlock | DecoderBlock, block)) for stack in stacks for block in stack.blocks
        )
    )


def is_plain(block: EncoderBlock | DecoderBlock) -> bool:
    forward = cast(FeedForward, block.feed_forward.sublayer)
    weight = forward.widen.weight
    sizes = (weight.size(0), weight.size(1) // attention_of(block.self_attention).heads)
    return (
        forward.activation in ("relu", "gelu-tanh")
        and weight.dtype == torch.float32
        and weight.device.type == "cpu"
        and not any(size % 8 for size in sizes)
    )
