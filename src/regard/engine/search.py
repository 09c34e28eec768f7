"""Beam search of encoder-decoders in C: the hypotheses of `decoding.beam_search`, several times faster.

Sentences are packed, no KV cache is copied (a row stores which rows it continues), the beams of a sentence
share its source, and the result of a sentence is bit-identical in any batch. Prefixes, coverage and no-repeat
constraints are supported by the plain search only.
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

from regard.engine.header import header
from regard.engine.library import data_ptr, library, optional_ptr
from regard.engine.ops import prepack
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
"""Number of token ids that may be excluded from translations."""


@dataclass(frozen=True)
class SearchSettings:
    """Settings of beam search; `never` are token ids that no translation contains."""

    beam: int
    nbest: int
    max_length: int
    begin: int
    end: int
    never: tuple[int, ...]
    length_penalty: float


class NativeSearch:
    """An encoder-decoder, or an ensemble of several, with prepacked weights."""

    def __init__(self, model: nn.Module, plan: Plan, max_length: int) -> None:
        self.max_length = max_length
        transformers = transformers_of(model)
        self.datastores = [
            None if datastore is None else PackedDatastore(datastore) for datastore in datastores_of(model)
        ]
        stacks = iter(plan.stacks)
        self.encoders, self.decoders = [], []
        for transformer in transformers:
            source, target = transformer.source_embedding, transformer.target_embedding
            self.encoders.append(PackedDecoder(next(stacks), source.weight, source.scale, max_length))
            self.decoders.append(
                PackedDecoder(next(stacks), target.weight, target.scale, max_length, transformer.output)
            )
        datastores = [C["Datastore"]() if packed is None else packed.struct for packed in self.datastores]
        self.structs = (
            *(
                (C["Decoder"] * len(packed))(*(member.struct for member in packed))
                for packed in (self.encoders, self.decoders)
            ),
            (C["Datastore"] * len(datastores))(*datastores),
        )
        self.fingerprint = Fingerprint(
            [
                *(tensor for packed in (*self.encoders, *self.decoders) for tensor in packed.copied_tensors),
                *(packed.datastore.keys for packed in self.datastores if packed is not None),
            ]
        )
        self.source_vocabulary = min(len(encoder.table) for encoder in self.encoders)
        self.target_vocabulary = min(len(decoder.table) for decoder in self.decoders)

    def translate(self, sentences: Sequence[Sequence[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """Beam search.

        Args:
            sentences: Source ids of each sentence; their lengths may differ.
            settings: Beam size, length limits and excluded ids.

        Returns:
            Up to `nbest` hypotheses of each sentence, best first.

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
            ids, id_counts = array("i", bytes(4 * count * max_length)), array("i", bytes(4 * count))
            scores, log_probabilities = array("d", bytes(8 * count)), array("d", bytes(8 * count))
            library().beam_search(
                *self.structs,
                len(self.decoders),
                ctypes.byref(config),
                *(buffer.buffer_info()[0] for buffer in (source, start)),
                len(sentences),
                *(buffer.buffer_info()[0] for buffer in (ids, id_counts, scores, log_probabilities)),
            )
        except MemoryError:
            raise MemoryError(
                f"out of memory on {len(sentences)} sentences with beam {settings.beam}; "
                "lower the batch size or the beam size"
            ) from None
        return [
            [
                Hypothesis(
                    tuple(ids[index * max_length : index * max_length + id_counts[index]]),
                    scores[index],
                    log_probabilities[index],
                )
                for index in range(first, first + nbest)
                if id_counts[index] >= 0
            ]
            for first in range(0, count, nbest)
        ]

    def _check(self, ids: list[int], lengths: list[int], settings: SearchSettings) -> None:
        if settings.beam < 1 or settings.nbest < 1 or settings.max_length < 1:
            raise ValueError(f"beam, nbest and max_length must be at least 1, not {settings}")
        if lengths and (min(lengths) < 1 or max(lengths) > self.max_length):
            raise ValueError(
                f"sentences of {min(lengths)} to {max(lengths)} tokens; allowed: 1 to {self.max_length}"
            )
        if ids and (min(ids) < 0 or max(ids) >= self.source_vocabulary):
            wrong = min(ids) if min(ids) < 0 else max(ids)
            raise ValueError(f"source token id {wrong} is outside the vocabulary of {self.source_vocabulary:,}")
        if len(settings.never) > MAX_FORBIDDEN:
            raise ValueError(f"at most {MAX_FORBIDDEN} ids can be excluded, not {len(settings.never)}")
        for token in (settings.begin, settings.end, *settings.never):
            if not 0 <= token < self.target_vocabulary:
                raise ValueError(
                    f"target token id {token} is outside the vocabulary of {self.target_vocabulary:,}"
                )


class PackedDecoder:
    """An encoder or a decoder with its embedding and packed matrices: a `Decoder` of engine.h.

    Args:
        stack: The planned stack.
        table: Token embeddings (vocabulary, d_model).
        scale: Factor of the token embeddings.
        max_length: Number of positions.
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
            [tensor.detach() for tensor in spec.tensors],
            spec.settings,
            spec.numbers,
            [0] * len(spec.dropouts),
            max_length,
        )
        (struct,) = self.structs.stacks
        self.memory = torch.empty(library().stack_packed_floats(ctypes.byref(struct), False))
        library().stack_pack(ctypes.byref(struct), False, data_ptr(self.memory))
        layers = [layer for sublayer in stack.sublayers for layer in linears_of(sublayer) if layer is not None]
        self.copied_tensors = [layer.weight for layer in layers]
        self.copied_tensors += [layer.bias for layer in layers if has_bias(layer)]
        weight, bias = (None, None) if output is None else output
        if weight is not None:
            self.copied_tensors.append(weight)
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
    """The positions added to the embeddings, (length or more, d_model); None if none are."""
    position = stack.position
    if isinstance(position, Learned) and len(position.table) < length:  # longer inputs are refused elsewhere
        return torch.nn.functional.pad(position.table.detach(), (0, 0, 0, length - len(position.table)))
    table = position_table(stack, length)
    return None if table is None else table.detach()


class PackedDatastore:
    """A kNN datastore with packed keys: a `Datastore` of engine.h."""

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
    """Checksum of copied tensors, to detect changes; `_version` misses writes through `.data` or numpy."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        count = len(tensors)
        sizes = (tensor.numel() * tensor.element_size() for tensor in tensors)
        self.arguments = (
            (ctypes.c_void_p * count)(*map(data_ptr, tensors)),
            (ctypes.c_int64 * count)(*sizes),
            count,
        )
        self.checksum = self.compute()

    def compute(self) -> tuple[int, int]:
        """The current checksum; the tensors must not have moved, which the plan's guard checks."""
        result = (ctypes.c_uint64 * 2)()
        library().fingerprint(*self.arguments, result)
        return result[0], result[1]

    def holds(self) -> bool:
        return self.compute() == self.checksum


_packed: "WeakKeyDictionary[nn.Module, tuple[Plan, NativeSearch]]" = WeakKeyDictionary()


def native_search(model: object, max_length: int) -> NativeSearch | None:
    """The model prepacked for beam search; None if the plan refuses it.

    The result is cached, and packed again when a weight has changed.
    """
    if not isinstance(model, nn.Module):
        return None
    plan = supports(model, "beam search")
    if plan is None:
        return None
    cached_plan, cached = _packed.get(model, (None, None))
    if (
        cached_plan is plan
        and cached is not None
        and cached.max_length == max_length
        and cached.fingerprint.holds()
    ):
        return cached
    packed = NativeSearch(model, plan, max_length)
    _packed[model] = plan, packed
    return packed


def nearest(datastore: Datastore, query: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`Datastore.nearest`, by the kernels if they support it: squared distances and indices, (rows, count)."""
    query = query.contiguous()
    if datastore.keys.device != query.device:
        raise ValueError(f"the queries are on {query.device}, the keys on {datastore.keys.device}")
    if not tensors_supported(query) or not 1 <= count <= len(datastore.keys):
        return datastore.nearest(query, count)
    if query.dim() != 2 or query.size(1) != datastore.keys.size(1):
        raise ValueError(
            f"the queries are {tuple(query.shape)}, not (rows, {datastore.keys.size(1)}) as the keys"
        )
    packed = PackedDatastore(datastore)
    proximities = query.new_empty(len(query), count)
    entries = torch.empty(len(query), count, dtype=torch.long)
    library().nearest_keys(
        ctypes.byref(packed.struct),
        *(data_ptr(query), *query.shape, count, data_ptr(proximities), data_ptr(entries)),
    )
    return (query.square().sum(1, keepdim=True) - 2 * proximities).clamp_min(0), entries


@contextmanager
def native_threads(count: int) -> Iterator[None]:
    """Context manager: kernels called from this thread use `count` threads, afterwards as many as PyTorch."""
    library().use_threads(count)
    try:
        yield
    finally:
        library().use_threads(torch.get_num_threads())
