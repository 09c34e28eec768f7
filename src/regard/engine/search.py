"""Beam search of an encoder-decoder in C: the hypotheses of `regard.decoding.search`, several times faster.

Sentences are packed, no KV cache is ever copied (a row stores which rows it continues), the beams of a sentence
share its source, and a row has the same bits whatever rows stand beside it. Prefixes, coverage and no-repeat
constraints are left to the plain search.
"""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.engine.gemm import prepack
from regard.engine.library import data_ptr, library, optional_ptr
from regard.engine.plan import (
    Plan,
    Sublayer,
    datastores_of,
    process_refusal,
    supports,
    tensors_of,
    transformers_of,
)
from regard.engine.plan import Stack as StackPlan
from regard.engine.structs import Remembered, Stack, Wanted
from regard.engine.train_step import check_ids
from regard.models.interface import Hypothesis
from regard.models.neighbours import Neighbours

MAX_FORBIDDEN = 8
"""Token ids that may be excluded from every translation."""


@dataclass(frozen=True)
class SearchSettings:
    """What to search for: `never` are token ids that no translation contains."""

    beam: int
    nbest: int
    max_length: int
    begin: int
    end: int
    never: tuple[int, ...]
    length_penalty: float


class NativeSearch:
    """The weights of one encoder-decoder, or of several that are averaged, prepacked for the kernels."""

    def __init__(self, model: nn.Module, plan: Plan, max_length: int) -> None:
        self.max_length = max_length
        transformers = transformers_of(model)
        self.datastores = [None if each is None else PackedDatastore(each) for each in datastores_of(model)]
        stacks = iter(plan.stacks)
        self.encoders, self.decoders = [], []
        for each in transformers:
            source, target = each.source_embedding, each.target_embedding
            self.encoders.append(PackedWeights(next(stacks), source.weight, source.scale, max_length))
            self.decoders.append(
                PackedWeights(next(stacks), target.weight, target.scale, max_length, each.output)
            )

    def translate(self, sentences: Sequence[Sequence[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """The `nbest` hypotheses of each sentence of ids, best first; their lengths may differ.

        Raises:
            ValueError: An id is outside the vocabulary, a sentence is empty or longer than the model allows.
            MemoryError: There is not enough memory for this batch and beam.
        """
        source = torch.tensor([each for ids in sentences for each in ids])
        lengths = torch.tensor([len(ids) for ids in sentences])
        self._check(source, lengths, settings)
        start = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
        longest, shape = min(settings.max_length, self.max_length), (len(sentences), settings.nbest)
        try:
            ids = torch.empty(*shape, longest, dtype=torch.int32)
            found = torch.empty(shape, dtype=torch.int32)
            scores, totals = torch.empty(shape, dtype=torch.float64), torch.empty(shape, dtype=torch.float64)
            wanted = Wanted(
                settings.beam,
                settings.nbest,
                longest,
                settings.begin,
                settings.end,
                len(settings.never),
                (ctypes.c_int64 * MAX_FORBIDDEN)(*settings.never),
                settings.length_penalty,
            )
            datastores = [Remembered() if each is None else each.struct for each in self.datastores]
            library().translate(
                *(
                    (Stack * len(stacks))(*(each.struct for each in stacks))
                    for stacks in (self.encoders, self.decoders)
                ),
                (Remembered * len(datastores))(*datastores),
                len(self.decoders),
                ctypes.byref(wanted),
                data_ptr(source),
                data_ptr(start),
                len(sentences),
                *map(data_ptr, (ids, found, scores, totals)),
            )
        except (MemoryError, RuntimeError) as problem:
            if not isinstance(problem, MemoryError) and "memory" not in str(problem):
                raise
            raise MemoryError(
                f"Out of memory on {len(sentences)} sentences with beam {settings.beam}. "
                "Lower the batch size or the beam size."
            ) from None
        return [
            [
                Hypothesis(tuple(text[:length]), score, total)
                for text, length, score, total in zip(*each, strict=True)
                if length >= 0
            ]
            for each in zip(ids.tolist(), found.tolist(), scores.tolist(), totals.tolist(), strict=True)
        ]

    def _check(self, source: Tensor, lengths: Tensor, settings: SearchSettings) -> None:
        decoder = self.decoders[0]
        if settings.beam < 1 or settings.nbest < 1 or settings.max_length < 1:
            raise ValueError(f"beam, nbest and max_length are at least 1; given: {settings}")
        if len(lengths) and (int(lengths.min()) < 1 or int(lengths.max()) > self.max_length):
            raise ValueError(
                f"sentences of {int(lengths.min())} to {int(lengths.max())} tokens; "
                f"allowed: 1 to {self.max_length}"
            )
        for encoder in self.encoders:
            check_ids(source, len(encoder.table), "source")
        if len(settings.never) > MAX_FORBIDDEN:
            raise ValueError(f"at most {MAX_FORBIDDEN} ids can be excluded; given: {len(settings.never)}")
        for member in self.decoders:
            check_ids(
                torch.tensor([settings.begin, settings.end, *settings.never]),
                min(len(member.table), decoder.struct.words),
                "target",
            )


class PackedWeights:
    """The blocks of an encoder or a decoder, matrices prepacked, as decoding.c walks through them."""

    def __init__(
        self,
        stack: StackPlan,
        table: Tensor,
        scale: float,
        max_length: int,
        output: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        last = stack.norm
        self.weights = [each for block in stack.blocks for each in block_weights(block)]
        self.weights += [None, None] if last is None else [last.weight.detach(), last.bias.detach()]
        self.pointers = (ctypes.c_void_p * len(self.weights))(*map(optional_ptr, self.weights))
        self.table = table.detach()
        self.output = None if output is None else prepack(output[0])
        self.bias = None if output is None else output[1].detach()
        width = table.size(1)
        with torch.no_grad():
            self.positions = stack.position.embed(torch.zeros(max_length, width)).contiguous()
        sublayers = list(stack.sublayers)
        network = next(each for each in sublayers if each.kind == "feed_forward")
        self.struct = Stack(
            len(stack.blocks),
            width,
            sublayers[0].heads,
            network.d_ff,
            0 if output is None else output[0].size(0),
            not sublayers[0].pre_norm,
            network.activation == "gelu-tanh",
            scale,
            sublayers[0].eps,
            data_ptr(self.table),
            ctypes.addressof(self.pointers),
            optional_ptr(self.output),
            optional_ptr(self.bias),
            data_ptr(self.positions),
        )


def block_weights(block: tuple[Sublayer, ...]) -> list[Tensor | None]:
    """A block's weights in the order of decoding.c; matrices prepacked, None for what it does not have."""
    attention, *cross, network = block
    query, key, value, output = (linear_weights(each) for each in attention.projections)
    fc1, fc2 = (linear_weights(each) for each in network.projections)
    none: list[Tensor | None] = [None, None]
    if cross:
        cross_norm = norm_weights(cross[0])
        cross_query, cross_key, cross_value, cross_output = (
            linear_weights(each) for each in cross[0].projections
        )
    else:
        cross_norm = cross_query = cross_key = cross_value = cross_output = none
    return [
        *norm_weights(attention),
        *(*query, *key, *value, *output),
        *cross_norm,
        *(*cross_query, *cross_output),
        *norm_weights(network),
        *(*fc1, *fc2),
        *(*cross_key, *cross_value),
    ]


def norm_weights(sublayer: Sublayer) -> list[Tensor | None]:
    return [sublayer.norm.weight.detach(), sublayer.norm.bias.detach()]


def linear_weights(linear: nn.Linear) -> list[Tensor | None]:
    return [prepack(linear.weight), None if linear.bias is None else linear.bias.detach()]


class PackedDatastore:
    """A kNN datastore as the kernels read it."""

    def __init__(self, neighbours: Neighbours) -> None:
        keys = neighbours.keys.float()
        self.keys, self.words = prepack(keys), neighbours.words
        self.offsets = -keys.square().sum(1) / 2
        self.struct = Remembered(
            *map(data_ptr, (self.keys, self.offsets, self.words)),
            len(keys),
            neighbours.count,
            float(neighbours.score.sharpness),
            neighbours.weight,
        )


@dataclass(frozen=True)
class _Packed:
    """A model prepacked, and what must still be so for it to be used again."""

    plan: Plan
    fingerprint: tuple[int, int]
    search: NativeSearch


_packed: "WeakKeyDictionary[nn.Module, _Packed]" = WeakKeyDictionary()


def native_search(model: object, max_length: int) -> NativeSearch | None:
    """The model prepacked for beam search; None where the plan refuses it.

    It is packed again whenever a weight has changed, in whatever way it was written.
    """
    if not isinstance(model, nn.Module):
        return None
    plan = supports(model, "beam search")
    if plan is None:
        return None
    known, fingerprint = _packed.get(model), weights_fingerprint(model)
    if (
        known is not None
        and known.plan is plan
        and known.fingerprint == fingerprint
        and known.search.max_length == max_length
    ):
        return known.search
    made = NativeSearch(model, plan, max_length)
    _packed[model] = _Packed(plan, fingerprint, made)
    return made


def weights_fingerprint(model: nn.Module) -> tuple[int, int]:
    """A checksum over all parameters and buffers: `_version` misses writes through `.data` or numpy."""
    tensors = tensors_of(model)
    pointers = (ctypes.c_void_p * len(tensors))(*map(data_ptr, tensors))
    sizes = (ctypes.c_int64 * len(tensors))(*(each.numel() * each.element_size() for each in tensors))
    result = (ctypes.c_uint64 * 2)()
    library().fingerprint(pointers, sizes, len(tensors), result)
    return result[0], result[1]


def nearest(neighbours: Neighbours, query: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`Neighbours.nearest` by the kernels where they take it: squared distances and places, (rows, count)."""
    query = query.contiguous()
    fits_kernel = process_refusal() is None and query.dtype == torch.float32 and query.device.type == "cpu"
    if not fits_kernel or neighbours.keys.device.type != "cpu" or not 1 <= count <= len(neighbours.keys):
        return neighbours.nearest(query, count)
    if query.dim() != 2 or query.size(1) != neighbours.keys.size(1):
        raise ValueError(f"queries {tuple(query.shape)} do not fit keys of {neighbours.keys.size(1)} numbers")
    packed = PackedDatastore(neighbours)
    fits = query.new_empty(len(query), count)
    places = torch.empty(len(query), count, dtype=torch.long)
    library().nearest(
        ctypes.byref(packed.struct), data_ptr(query), *query.shape, count, data_ptr(fits), data_ptr(places)
    )
    return (query.square().sum(1, keepdim=True) - 2 * fits).clamp_min(0), places


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Kernels called from this thread use so many threads; afterwards as many as PyTorch uses."""
    library().use_threads(count)
    try:
        yield
    finally:
        library().use_threads(torch.get_num_threads())
