"""The Transformer's decoder for decoding on a CPU: a step is one call into C, and no cache is ever copied.

A row remembers which rows of the earlier steps it continues, so that choosing other rows moves a few numbers,
not keys and values; the beams of a sentence share its source. `Transformer.step` is the plain twin.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.attention import Attention, Learned, Sinusoidal
from regard.layers import DecoderBlock, FeedForward, Residual
from regard.native import Decoder, Written, address, kernels

TIMES = 32
"""Steps that have place at first; doubled when they are used up."""


class LeanDecoder:
    """A decoder's weights as the kernel wants them."""

    def __init__(
        self,
        blocks: list[DecoderBlock],
        norm: nn.Module,
        table: Tensor,
        scale: float,
        output: tuple[Tensor, Tensor],
    ) -> None:
        self.layers, (self.words, self.width) = len(blocks), output[0].shape
        self.kept = [each for block in blocks for each in weights_of(block)]
        last = norm if isinstance(norm, nn.LayerNorm) else None
        self.kept += [None, None] if last is None else [last.weight.detach(), last.bias.detach()]
        self.output, self.bias, self.table = laid_out(output[0]), output[1].detach(), table.detach()
        self.pointers = (ctypes.c_void_p * len(self.kept))(
            *(None if each is None else address(each) for each in self.kept)
        )
        first = blocks[0]
        inner = cast(FeedForward, first.feed_forward.sublayer).widen.out_features
        self.inner = inner
        self.asked = Decoder(
            self.layers,
            self.width,
            attention_of(first.self_attention).heads,
            inner,
            self.words,
            first.self_attention.placement == "post",
            scale,
            cast(nn.LayerNorm, first.self_attention.norm).eps,
            address(self.table),
            ctypes.addressof(self.pointers),
            address(self.output),
            address(self.bias),
        )

    def step(self, tokens: Tensor, state: "LeanState", place: Tensor | None) -> tuple[Tensor, "LeanState"]:
        """Scores (rows, words) after one more token each (rows,), and the state that includes it."""
        native = kernels()
        assert native is not None
        state = state.with_room(len(tokens))
        rows, tokens = len(tokens), tokens.contiguous()
        scores = torch.empty(rows, self.words)
        scratch = torch.empty(rows * (4 * self.width + self.inner))
        memory = (ctypes.c_void_p * self.layers)(*map(address, state.memory))
        written = Written(
            rows,
            state.length,
            state.cache.size(3),
            state.cache.size(2),
            address(tokens),
            None if place is None else address(place),
            address(state.before),
            address(state.sentence),
            address(state.start),
            ctypes.addressof(memory),
            state.memory[0].size(0),
            address(state.cache),
        )
        native.decoder_step(ctypes.byref(self.asked), ctypes.byref(written), address(scores), address(scratch))
        state.before[:rows, state.length] = torch.arange(rows, dtype=torch.int32)
        return scores, replace(state, length=state.length + 1)


@dataclass(frozen=True)
class LeanState:
    """What rows have read and written; the cache belongs to all states of one search."""

    memory: list[Tensor]
    """For each layer keys and values of all source tokens, (tokens, 2 width)."""
    start: Tensor
    """Where each sentence's tokens begin, and where the last ends: (sentences + 1,)."""
    sentence: Tensor
    """Which sentence a row translates: (rows,)."""
    before: Tensor
    """Which row of each earlier step a row continues: (rows, times)."""
    cache: Tensor
    """Keys and values of every step: (layers, 2, times, rows, width)."""
    decoder: LeanDecoder
    length: int = 0
    fours: bool = False

    @staticmethod
    def begin(memory: list[Tensor], start: Tensor, decoder: LeanDecoder) -> "LeanState":
        sentences = len(start) - 1
        return LeanState(
            memory,
            start,
            torch.arange(sentences, dtype=torch.int32),
            torch.zeros(sentences, TIMES, dtype=torch.int32),
            torch.empty(len(memory), 2, TIMES, sentences, memory[0].size(1) // 2),
            decoder,
        )

    def select(self, rows: Tensor) -> "LeanState":
        return replace(
            self, sentence=self.sentence.index_select(0, rows), before=self.before.index_select(0, rows)
        )

    def with_room(self, rows: int) -> "LeanState":
        """The state with place for one more step of so many rows."""
        layers, both, times, room, width = self.cache.shape
        if self.length < times and rows <= room:
            return self
        wanted = 2 * times if self.length == times else times
        cache = torch.empty(layers, both, wanted, max(rows, room), width)
        cache[:, :, : self.length, :room] = self.cache[:, :, : self.length]
        before = torch.nn.functional.pad(self.before, (0, wanted - times))
        return replace(self, cache=cache, before=before)


def attention_of(residual: Residual) -> Attention:
    """The attention inside a residual path: cross-attention itself, or what self-attention wraps."""
    return cast(Attention, getattr(residual.sublayer, "attention", residual.sublayer))


def weights_of(block: DecoderBlock) -> list[Tensor | None]:
    """A block's weights in the order of the kernel; matrices laid out for it."""
    assert block.cross_attention is not None
    own, cross = attention_of(block.self_attention), attention_of(block.cross_attention)
    forward = cast(FeedForward, block.feed_forward.sublayer)
    found: list[Tensor | None] = []
    for norm, linears in (
        (block.self_attention.norm, (own.query, own.key, own.value, own.output)),
        (block.cross_attention.norm, (cross.query, cross.output)),
        (block.feed_forward.norm, (forward.widen, forward.narrow)),
    ):
        assert isinstance(norm, nn.LayerNorm)
        found += [norm.weight.detach(), norm.bias.detach()]
        for linear in linears:
            assert isinstance(linear, nn.Linear)
            found += [laid_out(linear.weight), None if linear.bias is None else linear.bias.detach()]
    return found


def laid_out(weight: Tensor) -> Tensor:
    """A matrix (out, in) in panels of sixteen outputs: (panels, in, 16)."""
    native = kernels()
    assert native is not None
    weight = weight.detach().contiguous()
    out, inside = weight.shape
    panels = torch.empty(-(-out // 16), inside, 16)
    native.lay_out(address(weight), address(panels), out, inside)
    return panels


@dataclass(frozen=True)
class _Made:
    """A decoder laid out, and how to notice that it is out of date."""

    modules: tuple[nn.Module, ...]
    stamp: tuple[int, ...]
    decoder: LeanDecoder


_made: WeakKeyDictionary[nn.Module, _Made] = WeakKeyDictionary()


def lean(model: nn.Module, make: Callable[[], LeanDecoder]) -> LeanDecoder:
    """The model's decoder laid out, made anew when its weights have changed."""
    known = _made.get(model)
    if known is not None and known.stamp == stamp_of(known.modules):
        return known.decoder
    made = make()
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


def may_be_lean(blocks: nn.ModuleList, position: nn.Module) -> bool:
    """Whether the kernel knows these blocks: ReLU, positions on the embeddings, float32 in the CPU's memory."""
    return (
        len(blocks) > 0
        and isinstance(position, Sinusoidal | Learned)
        and all(is_plain(cast(DecoderBlock, block)) for block in blocks)
        and kernels() is not None
    )


def is_plain(block: DecoderBlock) -> bool:
    if block.cross_attention is None:
        return False
    forward, weight = block.feed_forward.sublayer, cast(FeedForward, block.feed_forward.sublayer).widen.weight
    sizes = (weight.size(0), weight.size(1) // attention_of(block.self_attention).heads)
    return (
        isinstance(forward, FeedForward)
        and forward.activation == "relu"
        and weight.dtype == torch.float32
        and weight.device.type == "cpu"
        and not any(size % 8 for size in sizes)
    )
