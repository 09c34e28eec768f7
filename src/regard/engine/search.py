"""Beam search of an encoder-decoder in C: the hypotheses of `decoding.beam_search`, several times faster.

Sentences are packed, no KV cache is ever copied (a row stores which rows it continues), the beams of a sentence
share its source, and a row has the same bits whatever rows stand beside it. Prefixes, coverage and no-repeat
constraints are left to the plain search.
"""

import ctypes
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.engine.gemm import prepack
from regard.engine.header import header
from regard.engine.library import data_ptr, library, optional_ptr
from regard.engine.plan import (
    Plan,
    datastores_of,
    supports,
    tensors_supported,
    transformers_of,
)
from regard.engine.plan import Stack as StackPlan
from regard.engine.stack import StackSpec, StackStructs, linears_of
from regard.engine.token_loss import position_table
from regard.nn import Learned
from regard.nn.knn import Datastore
from regard.nn.seq2seq import Hypothesis

C = header().structs
MAX_FORBIDDEN = header().constants["MAX_FORBIDDEN"]
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
            self.encoders.append(PackedDecoder(next(stacks), source.weight, source.scale, max_length))
            self.decoders.append(
                PackedDecoder(next(stacks), target.weight, target.scale, max_length, each.output)
            )
        datastores = [C["Datastore"]() if each is None else each.struct for each in self.datastores]
        self.structs = (
            *(
                (C["Decoder"] * len(each))(*(one.struct for one in each))
                for each in (self.encoders, self.decoders)
            ),
            (C["Datastore"] * len(datastores))(*datastores),
        )
        self.copied = Fingerprint(
            [
                *(each for side in (self.encoders, self.decoders) for one in side for each in one.copied),
                *(each.datastore.keys for each in self.datastores if each is not None),
            ]
        )
        self.source_words = min(len(each.table) for each in self.encoders)
        self.target_words = min(len(each.table) for each in self.decoders)

    def translate(self, sentences: Sequence[Sequence[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """The `nbest` hypotheses of each sentence of ids, best first; their lengths may differ.

        Raises:
            ValueError: An id is outside the vocabulary, a sentence is empty or longer than the model allows.
            MemoryError: There is not enough memory for this batch and beam.
        """
        flat, lengths = list(chain.from_iterable(sentences)), list(map(len, sentences))
        self._check(flat, lengths, settings)
        source, start = array("q", flat), array("i", accumulate(lengths, initial=0))
        max_length, nbest = min(settings.max_length, self.max_length), settings.nbest
        count = len(sentences) * nbest
        config = C["SearchConfig"](
            settings.beam,
            nbest,
            max_length,
            settings.begin,
            settings.end,
            len(settings.never),
            (ctypes.c_int64 * MAX_FORBIDDEN)(*settings.never),
            settings.length_penalty,
        )
        try:
            ids, found = array("i", bytes(4 * count * max_length)), array("i", bytes(4 * count))
            scores, totals = array("d", bytes(8 * count)), array("d", bytes(8 * count))
            library().beam_search(
                *self.structs,
                len(self.decoders),
                ctypes.byref(config),
                *(each.buffer_info()[0] for each in (source, start)),
                len(sentences),
                *(each.buffer_info()[0] for each in (ids, found, scores, totals)),
            )
        except MemoryError:
            raise MemoryError(
                f"Out of memory on {len(sentences)} sentences with beam {settings.beam}. "
                "Lower the batch size or the beam size."
            ) from None
        return [
            [
                Hypothesis(tuple(ids[at * max_length : at * max_length + found[at]]), scores[at], totals[at])
                for at in range(first, first + nbest)
                if found[at] >= 0
            ]
            for first in range(0, count, nbest)
        ]

    def _check(self, ids: list[int], lengths: list[int], settings: SearchSettings) -> None:
        if settings.beam < 1 or settings.nbest < 1 or settings.max_length < 1:
            raise ValueError(f"beam, nbest and max_length are at least 1; given: {settings}")
        if lengths and (min(lengths) < 1 or max(lengths) > self.max_length):
            raise ValueError(
                f"sentences of {min(lengths)} to {max(lengths)} tokens; allowed: 1 to {self.max_length}"
            )
        if ids and (min(ids) < 0 or max(ids) >= self.source_words):
            wrong = min(ids) if min(ids) < 0 else max(ids)
            raise ValueError(f"source token id {wrong} is outside the vocabulary of {self.source_words:,}")
        if len(settings.never) > MAX_FORBIDDEN:
            raise ValueError(f"at most {MAX_FORBIDDEN} ids can be excluded; given: {len(settings.never)}")
        for each in (settings.begin, settings.end, *settings.never):
            if not 0 <= each < self.target_words:
                raise ValueError(f"target token id {each} is outside the vocabulary of {self.target_words:,}")


class PackedDecoder:
    """An encoder or a decoder with its embedding, matrices packed: a `Decoder` of engine.h.

    Args:
        output: Weight (vocabulary, d_model) and bias of the output layer, for a decoder.
    """

    def __init__(
        self,
        stack: StackPlan,
        table: Tensor,
        scale: float,
        max_length: int,
        output: tuple[Tensor, Tensor | None] | None = None,
    ) -> None:
        self.table = table.detach()
        self.positions = full_position_table(stack, max_length)
        spec = StackSpec().add(stack)
        self.structs = StackStructs(
            [each.detach() for each in spec.tensors],
            spec.settings,
            spec.numbers,
            [0] * len(spec.dropouts),
            max_length,
        )
        (struct,) = self.structs.stacks
        self.memory = torch.empty(library().stack_packed_floats(ctypes.byref(struct), False))
        library().stack_pack(ctypes.byref(struct), False, data_ptr(self.memory))
        linears = [each for sublayer in stack.sublayers for each in linears_of(sublayer) if each is not None]
        self.copied = [each.weight for each in linears] + [each.bias for each in linears if has_bias(each)]
        weight, bias = (None, None) if output is None else output
        if weight is not None:
            self.copied.append(weight)
        self.output = None if weight is None else prepack(weight)
        self.bias = None if bias is None else bias.detach()
        self.layers = len(stack.blocks)
        self.struct = C["Decoder"](
            struct,
            C["Embedding"](data_ptr(self.table), optional_ptr(self.positions), -1, -1, scale),
            *map(optional_ptr, (self.output, self.bias)),
            0 if weight is None else len(weight),
        )


def has_bias(linear: nn.Linear) -> bool:
    return cast(Tensor | None, linear.bias) is not None


def full_position_table(stack: StackPlan, length: int) -> Tensor | None:
    """What is added to the embeddings, (length or more, d_model): the model's own table where it reaches."""
    position = stack.position
    if isinstance(position, Learned) and len(position.table) < length:  # there are no more positions than these
        return torch.nn.functional.pad(position.table.detach(), (0, 0, 0, length - len(position.table)))
    table = position_table(stack, length)
    return None if table is None else table.detach()


class PackedDatastore:
    """A kNN datastore as the kernels read it."""

    def __init__(self, datastore: Datastore) -> None:
        self.datastore = datastore
        keys = datastore.keys.float()
        self.keys, self.tokens = prepack(keys), datastore.tokens
        self.offsets = -keys.square().sum(1) / 2
        self.struct = C["Datastore"](
            *map(data_ptr, (self.keys, self.offsets, self.tokens)),
            len(keys),
            datastore.count,
            float(datastore.score.sharpness),
            datastore.weight,
        )


class Fingerprint:
    """A checksum of tensors that were copied: `_version` misses writes through `.data` or numpy."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        count = len(tensors)
        sizes = (each.numel() * each.element_size() for each in tensors)
        self.memory = (
            (ctypes.c_void_p * count)(*map(data_ptr, tensors)),
            (ctypes.c_int64 * count)(*sizes),
            count,
        )
        self.checksum = self.now()

    def now(self) -> tuple[int, int]:
        """The checksum of what they hold now; they must be where they were, which the plan's guard checks."""
        result = (ctypes.c_uint64 * 2)()
        library().fingerprint(*self.memory, result)
        return result[0], result[1]

    def holds(self) -> bool:
        return self.now() == self.checksum


_packed: "WeakKeyDictionary[nn.Module, tuple[Plan, NativeSearch]]" = WeakKeyDictionary()


def native_search(model: object, max_length: int) -> NativeSearch | None:
    """The model prepacked for beam search; None where the plan refuses it.

    It is packed again whenever a weight has changed, in whatever way it was written.
    """
    if not isinstance(model, nn.Module):
        return None
    plan = supports(model, "beam search")
    if plan is None:
        return None
    known, search = _packed.get(model, (None, None))
    if known is plan and search is not None and search.max_length == max_length and search.copied.holds():
        return search
    made = NativeSearch(model, plan, max_length)
    _packed[model] = plan, made
    return made


def nearest(datastore: Datastore, query: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`Datastore.nearest` by the kernels where they take it: squared distances and indices, (rows, count)."""
    query = query.contiguous()
    if datastore.keys.device != query.device:
        raise ValueError(f"queries on {query.device} do not fit keys on {datastore.keys.device}")
    if not tensors_supported(query) or not 1 <= count <= len(datastore.keys):
        return datastore.nearest(query, count)
    if query.dim() != 2 or query.size(1) != datastore.keys.size(1):
        raise ValueError(f"queries {tuple(query.shape)} do not fit keys of {datastore.keys.size(1)} numbers")
    packed = PackedDatastore(datastore)
    fits = query.new_empty(len(query), count)
    places = torch.empty(len(query), count, dtype=torch.long)
    library().nearest_keys(
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
