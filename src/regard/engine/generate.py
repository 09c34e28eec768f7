"""Next-token logits of a GPT in C: those of `GptLanguageModel`, several times faster.

The KV cache is allocated once; a row stores which rows it continues, so that nothing is copied when rows are
selected; and a row has the same bits whatever rows stand beside it.
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
    """A GPT's weights, prepacked. They are those at the time it was made: see `native_gpt`."""

    exact = True
    """Whether a row has the same bits in any batch."""

    def __init__(self, model: GptLanguageModel, plan: Plan) -> None:
        self.max_length = model.gpt.max_length
        table = model.gpt.token_embedding.weight
        self.words = len(table)
        self.d_model = table.size(1)
        self.weights = PackedDecoder(plan.stacks[0], table, 1.0, self.max_length, (table, None))
        self.copied = Fingerprint(self.weights.copied)

    def start(self, source: Tensor) -> "NativeGptState":
        """Read ids (texts, length), of which there may be none.

        Raises:
            ValueError: A text is longer than the context window, or an id is outside the vocabulary.
        """
        source = source.contiguous()
        rows, length = source.shape
        if length > self.max_length:
            raise ValueError(f"{length} tokens do not fit into a context window of {self.max_length}")
        check_ids(source, self.words, "prompt")
        struct = self.weights.struct
        cache = torch.empty(self.weights.layers, 2, rows, self.max_length, self.d_model)
        if length:
            shape = (rows, length, rows, self.max_length)
            library().prefill(ctypes.byref(struct), data_ptr(source), *shape, data_ptr(cache))
        before = torch.arange(rows, dtype=torch.int32).unsqueeze(1).repeat(1, self.max_length)
        return NativeGptState(_CacheBuffer(cache, length), before, source)

    def step(
        self, tokens: Tensor, state: "NativeGptState", record: Recorder | None = None
    ) -> tuple[Tensor, "NativeGptState"]:
        """One token each (texts,) -> logits (texts, vocabulary); a full window slides as in `nn`."""
        if record is not None:
            raise ValueError("the native engine does not record attention weights")
        check_ids(tokens, self.words, "prompt")
        if state.ids.size(1) == self.max_length:
            state = self.start(state.ids[:, self.max_length - self.max_length // 2 :])
        step, rows, tokens = state.ids.size(1), len(tokens), tokens.contiguous()
        if rows != len(state.ids):
            raise ValueError(f"{rows} tokens for {len(state.ids)} texts")
        state.before[:, step] = torch.arange(rows, dtype=torch.int32)  # the same in every branch
        cache = state.room_for_a_step(rows)
        scores = torch.empty(rows, self.words)
        library().next_token(
            ctypes.byref(self.weights.struct),
            data_ptr(tokens),
            data_ptr(state.before),
            rows,
            step,
            cache.keys_values.size(2),
            self.max_length,
            data_ptr(cache.keys_values),
            data_ptr(scores),
        )
        cache.written = step + 1
        return scores, replace(state, cache=cache, ids=torch.cat([state.ids, tokens.unsqueeze(1)], dim=1))


@dataclass
class _CacheBuffer:
    """Keys and values (layers, 2, room for rows, window, width), shared by the states of all branches."""

    keys_values: Tensor
    written: int
    """Positions written, by whichever branch."""


@dataclass(frozen=True)
class NativeGptState:
    """The tokens so far; a step returns a new state, and this one stays valid."""

    cache: _CacheBuffer
    before: Tensor  # (texts, window): the row of the cache that holds each earlier token of a text
    ids: Tensor  # (texts, length)

    def select(self, rows: Tensor) -> "NativeGptState":
        """The texts `rows`, in that order; repeats allowed."""
        return NativeGptState(self.cache, self.before[rows].contiguous(), self.ids[rows])

    def room_for_a_step(self, rows: int) -> _CacheBuffer:
        """A buffer in which nothing is written at the next position: a copy if another branch was there."""
        old, step = self.cache.keys_values, self.ids.size(1)
        if self.cache.written == step and rows <= old.size(2):
            return self.cache
        new = old.new_empty(*old.shape[:2], max(rows, old.size(2)), *old.shape[3:])
        new[:, :, : old.size(2), :step] = old[:, :, :, :step]
        return _CacheBuffer(new, step)


_packed: "WeakKeyDictionary[nn.Module, tuple[Plan, NativeGpt]]" = WeakKeyDictionary()


def native_gpt(model: object) -> NativeGpt | None:
    """The model prepacked for generation, from its weights as they are now; None where the plan refuses it."""
    if not isinstance(model, GptLanguageModel):
        return None
    plan = supports(model, "generation")
    if plan is None:
        return None
    known, runner = _packed.get(model, (None, None))
    if known is plan and runner is not None and runner.copied.holds():
        return runner
    made = NativeGpt(model, plan)
    _packed[model] = plan, made
    return made
