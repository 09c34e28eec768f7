"""A batch of sentence pairs through the whole Transformer, there and back, by one call of the kernels.

Sentences know nothing of each other: each core takes its own through all layers and waits for no other until
the gradients are added up. Called layer by layer, as the plain twin is (`PairObjective` over
`Transformer.rows`), the cores wait for each other some hundred times a step, and for Python between.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.attention import Attention, Ends, Learned, Position, Sinusoidal
from regard.attention.apart import dropped_of
from regard.attention.score import ScaledDot
from regard.data.batches import Batch
from regard.engine import Lesson, Side, Sublayer, address, in_c, kernels
from regard.layers import DecoderBlock, EncoderBlock, FeedForward, Residual
from regard.layers.dropout import chance
from regard.layers.self_attention import SelfAttention
from regard.layers.thought import watched
from regard.models.transformer import Decoder, Encoder, Transformer
from regard.training.blockloss import entropy_term

THINK, LOOK, LOOK_AT_SOURCE = range(3)
"""The kinds of sublayers, as the kernel counts them."""
BLOCK, PANEL = 32, 16
"""Elements whose chance is drawn together, so that none may belong to two rows; outputs computed together."""

MOST_COPIES = 2**28
"""Numbers in the gradients of all cores together, one each until they are added up: a gigabyte."""


def learned(
    model: nn.Module, batch: Batch, *, padding: int, smoothing: float, r_drop: float = 0.0
) -> Tensor | None:
    """The smoothed divergence of a batch, summed over its golds; None where it is not for the kernel to do.

    With `r_drop` that of two passes, and how far they are apart. The gradient is computed with it.
    """
    if not isinstance(model, Transformer) or not torch.is_grad_enabled() or not may_learn(model):
        return None
    read, written = Ends.of(batch.source, padding), Ends.of(batch.target, padding)
    if not torch.equal(written.real, batch.gold != padding) or not (read.lengths.all() & written.lengths.all()):
        return None  # something other than sentences shifted by one
    places = places_of(model.encoder, read), places_of(model.decoder, written)
    source, target, gold = batch.source[read.real], batch.target[written.real], batch.gold[written.real]
    sentences = len(read.lengths)
    if r_drop:  # both passes at once: the batch twice, with dropout of its own each
        source, target = torch.cat((source, source)), torch.cat((target, target))
        read, written = (Ends(each.lengths.repeat(2)) for each in (read, written))
    given = Given(model, sentences, (source, target), (read, written), places, gold, padding, smoothing, r_drop)
    return cast(Tensor, _Learned.apply(given, *model.parameters()))  # type: ignore[no-untyped-call]


def may_learn(model: Transformer) -> bool:
    """Whether the kernel knows this model, and nobody watches what goes on in it."""
    layers = [*sublayers(model.encoder), *sublayers(model.decoder)]
    networks = [each.sublayer for each in layers if isinstance(each.sublayer, FeedForward)]
    looking = [attention_of(each) for each in layers if not isinstance(each.sublayer, FeedForward)]
    width = model.source_embedding.weight.size(1)
    return (
        model.may_lie_end_to_end
        and width % BLOCK == 0
        and bool(networks and looking)
        and width // looking[0].heads % 8 == 0
        and networks[0].widen.out_features % PANEL == 0
        and all(each.activation == "relu" for each in networks)
        and all(each.placement == "pre" and isinstance(each.norm, nn.LayerNorm) for each in layers)
        and all(type(each.score) is ScaledDot and type(each.position) is Position for each in looking)
        and torch.get_num_threads() * sum(each.numel() for each in model.parameters()) <= MOST_COPIES
        and in_c(*model.parameters())
        and not any(watched(each) for each in model.modules())
    )


def sublayers(side: Encoder | Decoder) -> list[Residual]:
    """The sublayers of all blocks in their order."""
    found = []
    for block in side.blocks:
        assert isinstance(block, EncoderBlock | DecoderBlock)
        cross = block.cross_attention if isinstance(block, DecoderBlock) else None
        found += [block.self_attention, *([] if cross is None else [cross]), block.feed_forward]
    return found


def attention_of(layer: Residual) -> Attention:
    inner = layer.sublayer
    return inner.attention if isinstance(inner, SelfAttention) else cast(Attention, inner)


def places_of(side: Encoder | Decoder, ends: Ends) -> Tensor:
    """Vectors of places (longest, width), as far as these sentences reach."""
    longest = int(ends.lengths.max())
    if isinstance(side.position, Learned):
        side.position.check_length(longest)
        return side.position.table
    return cast(Sinusoidal, side.position).at(0, longest)


@dataclass(frozen=True)
class Given:
    """A batch as the kernel takes it: sentences end to end, source and target."""

    model: Transformer
    sentences: int
    ids: tuple[Tensor, Tensor]
    ends: tuple[Ends, Ends]
    places: tuple[Tensor, Tensor]
    gold: Tensor
    padding: int
    smoothing: float
    r_drop: float


class _Learned(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Given, *parameters: Tensor) -> Tensor:
        native = kernels()
        assert native is not None
        at = Places(parameters)
        loss, gradient = torch.empty((), dtype=torch.float64), torch.empty(at.total)
        native.learn(ctypes.byref(lesson_of(given, at)), address(loss), address(gradient))
        ctx.gradient, ctx.shapes = gradient, [each.shape for each in parameters]
        words = given.model.output_bias.numel()
        return (loss + len(given.gold) * entropy_term(given.smoothing, words)).float()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        parts = (ctx.gradient * upstream[0]).split([shape.numel() for shape in ctx.shapes])
        return None, *(part.view(shape) for part, shape in zip(parts, ctx.shapes, strict=True))


class Places:
    """Where the gradient of each parameter lies in the one of all."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.places: dict[int, int] = {}
        self.total = 0
        for each in parameters:
            self.places[address(each)] = self.total
            self.total += each.numel()

    def __getitem__(self, parameter: Tensor | None) -> int:
        """Below 0 for what is not learned."""
        return -1 if parameter is None else self.places.get(address(parameter), -1)


@dataclass(frozen=True)
class Dropped:
    """How much is dropped, of 256: around sublayers, inside networks, of attention's weights."""

    around: int
    inside: int
    weights: int

    @staticmethod
    def of(model: Transformer) -> "Dropped":
        looks, *_, thinks = sublayers(model.encoder)
        attention, network = attention_of(looks), cast(FeedForward, thinks.sublayer)
        weights = dropped_of(attention.dropout) if attention.training else 0
        return Dropped(model.dropout.bytes, network.dropout.bytes, weights)


def lesson_of(given: Given, at: Places) -> Lesson:
    """What the kernel is asked, seeds drawn in the twin's order; what is named must live as long as it runs."""
    model = given.model
    looks, *_, thinks = sublayers(model.encoder)
    dropped = Dropped.of(model)
    words, width = model.output[0].shape
    embeddings = (model.source_embedding.weight, model.target_embedding.weight)
    both: tuple[Encoder | Decoder, ...] = (model.encoder, model.decoder)
    stacks = zip(both, embeddings, given.ids, given.ends, given.places, strict=True)
    return Lesson(
        *(side_of(*each, at, dropped) for each in stacks),
        address(given.gold),
        *map(address, model.output),
        *(at[each] for each in model.output),
        at.total,
        given.sentences,
        2 if given.r_drop else 1,
        width,
        attention_of(looks).heads,
        cast(FeedForward, thinks.sublayer).widen.out_features,
        words,
        given.padding,
        dropped.around,
        dropped.inside,
        dropped.weights,
        cast(nn.LayerNorm, model.decoder.norm).eps,
        model.source_embedding.scale,
        1 - given.smoothing,
        given.smoothing / (words - 2),
        given.r_drop,
    )


def side_of(
    side: Encoder | Decoder,
    table: Tensor,
    ids: Tensor,
    ends: Ends,
    places: Tensor,
    at: Places,
    dropped: Dropped,
) -> Side:
    """The encoder or the decoder as the kernel walks through it."""
    norm = cast(nn.LayerNorm, side.norm)
    seed, layers = drawn(dropped.around), sublayers(side)
    return Side(
        *map(address, (ids, ends.start, table, places)),
        at[table],
        at[places],
        (address(norm.weight), address(norm.bias)),
        (at[norm.weight], at[norm.bias]),
        seed,
        len(layers),
        (Sublayer * len(layers))(*(sublayer_of(each, at, dropped) for each in layers)),
    )


def sublayer_of(layer: Residual, at: Places, dropped: Dropped) -> Sublayer:
    norm, inner = cast(nn.LayerNorm, layer.norm), layer.sublayer
    if isinstance(inner, FeedForward):
        kind, inside, maps = THINK, dropped.inside, [inner.widen, inner.narrow]
    else:
        attention = attention_of(layer)
        kind, inside = LOOK if isinstance(inner, SelfAttention) else LOOK_AT_SOURCE, dropped.weights
        four = (attention.query, attention.key, attention.value, attention.output)
        maps = [cast(nn.Linear, each) for each in four]
    learns = [cast(Tensor | None, each) for one in maps for each in (one.weight, one.bias)]
    return Sublayer(
        kind,
        drawn(inside),
        drawn(dropped.around),
        (address(norm.weight), address(norm.bias)),
        tuple(None if each is None else address(each) for each in learns),
        (at[norm.weight], at[norm.bias]),
        tuple(at[each] for each in learns),
    )


def drawn(bytes_dropped: int) -> int:
    """A seed, where there is something to be dropped."""
    return chance() if bytes_dropped else 0
