"""Next-token logits of a GPT in C: those of `GptLanguageModel`, several times faster.

The KV cache is allocated once; a row stores which rows it continues, so that selecting rows copies nothing. The
result of a row is bit-identical in any batch.
"""

import ctypes
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.engine.library import data_ptr, library
from regard.engine.plan import Plan, supports
from regard.engine.search import Fingerprint, PackedDecoder
from regard.engine.token_loss import check_ids
from regard.nn import Recorder
from regard.nn.gpt import GptLanguageModel


class NativeGpt:
    """A GPT with prepacked weights, a snapshot from when it was created: see `native_gpt`."""

    exact = True
    """Whether the result of a row is bit-identical in any batch."""

    def __init__(self, model: GptLanguageModel, plan: Plan) -> None:
        self.max_length = model.gpt.max_length
        table = model.gpt.token_embedding.weight
        self.vocabulary = len(table)
        self.d_model = table.size(1)
        self.weights = PackedDecoder(plan.stacks[0], table, 1.0, self.max_length, (table, None))
        self.fingerprint = Fingerprint(self.weights.copied_tensors)

    def start(self, source: Tensor) -> "NativeGptState":
        """The state after a prompt of ids (texts, length), which may be empty.

        Raises:
            ValueError: A text is longer than the context window, or an id is outside the vocabulary.
        """
        source = source.contiguous()
        rows, length = source.shape
        if length > self.max_length:
            raise ValueError(f"a prompt of {length} tokens exceeds the context window of {self.max_length}")
        check_ids(source, self.vocabulary, "prompt")
        struct = self.weights.struct
        cache = torch.empty(self.weights.layers, 2, rows, self.max_length, self.d_model)
        if length:
            shape = (rows, length, rows, self.max_length)
            library().prefill(ctypes.byref(struct), data_ptr(source), *shape, data_ptr(cache))
        parents = torch.arange(rows, dtype=torch.int32).unsqueeze(1).repeat(1, self.max_length)
        return NativeGptState(_CacheBuffer(cache, length), parents, source)

    def step(
        self, tokens: Tensor, state: "NativeGptState", record: Recorder | None = None
    ) -> tuple[Tensor, "NativeGptState"]:
        """As `GptLanguageModel.step`: tokens (texts,) -> logits (texts, vocabulary), and a new state."""
        if record is not None:
            raise ValueError("the native engine does not record attention weights")
        check_ids(tokens, self.vocabulary, "prompt")
        if state.ids.size(1) == self.max_length:
            state = self.start(state.ids[:, self.max_length - self.max_length // 2 :])
        step, rows, tokens = state.ids.size(1), len(tokens), tokens.contiguous()
        if rows != len(state.ids):
            raise ValueError(f"{rows} tokens for {len(state.ids)} texts")
        state.parents[:, step] = torch.arange(rows, dtype=torch.int32)  # the same in every branch
        cache = state.writable_cache(rows)
        logits = torch.empty(rows, self.vocabulary)
        library().next_token(
            ctypes.byref(self.weights.struct),
            data_ptr(tokens),
            data_ptr(state.parents),
            rows,
            step,
            cache.keys_values.size(2),
            self.max_length,
            data_ptr(cache.keys_values),
            data_ptr(logits),
        )
        cache.written = step + 1
        return logits, replace(state, cache=cache, ids=torch.cat([state.ids, tokens.unsqueeze(1)], dim=1))


@dataclass
class _CacheBuffer:
    """Keys and values (layers, 2, rows, window, d_model), shared by the states of all branches."""

    keys_values: Tensor
    written: int
    """Positions that any branch has written."""


@dataclass(frozen=True)
class NativeGptState:
    """The tokens so far; a step returns a new state, and this one stays valid."""

    cache: _CacheBuffer
    parents: Tensor  # (texts, window): the row of the cache that holds each earlier token of a text
    ids: Tensor  # (texts, length)

    def select(self, rows: Tensor) -> "NativeGptState":
        """The texts `rows`, in that order; repeats allowed."""
        return NativeGptState(self.cache, self.parents[rows].contiguous(), self.ids[rows])

    def writable_cache(self, rows: int) -> _CacheBuffer:
        """A buffer whose next position is unwritten: a copy if another branch has written it."""
        old, step = self.cache.keys_values, self.ids.size(1)
        if self.cache.written == step and rows <= old.size(2):
            return self.cache
        new = old.new_empty(*old.shape[:2], max(rows, old.size(2)), *old.shape[3:])
        new[:, :, : old.size(2), :step] = old[:, :, :, :step]
        return _CacheBuffer(new, step)


_packed: "WeakKeyDictionary[nn.Module, tuple[Plan, NativeGpt]]" = WeakKeyDictionary()


def native_gpt(model: object) -> NativeGpt | None:
    """The model prepacked for generation, with its current weights; None if the plan refuses it."""
    if not isinstance(model, GptLanguageModel):
        return None
    plan = supports(model, "generation")
    if plan is None:
        return None
    cached_plan, cached = _packed.get(model, (None, None))
    if cached_plan is plan and cached is not None and cached.fingerprint.holds():
        return cached
    packed = NativeGpt(model, plan)
    _packed[model] = plan, packed
    return packed
