"""A GPT on a CPU asked for the next token without leaving C: the scores of `GptWriter`, several times sooner.

Keys and values lie in room that was taken once; a row remembers which rows it continues, so that nothing is
copied when rows are chosen; and a row has the same bits whatever rows stand beside it.
"""

import ctypes
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from regard.attention import Learned, Recorder, Sinusoidal
from regard.decoding.lean import LeanStack, is_plain
from regard.engine import address, kernels
from regard.layers import DecoderBlock
from regard.models.gpt import GptWriter


class LeanGpt:
    """A GPT's weights as the kernels want them; they must not change while it is used."""

    exact = True
    """Whether a row has the same bits in any company."""

    def __init__(self, model: GptWriter) -> None:
        self.longest = model.gpt.longest
        table = model.gpt.token_embedding.weight
        self.words = len(table)
        self.stack = LeanStack(
            model.gpt.decoder, table, 1.0, self.longest, (table, table.new_zeros(len(table)))
        )

    def start(self, source: Tensor) -> "LeanState":
        """Read ids (texts, length), of which there may be none."""
        native = kernels()
        assert native is not None
        source = source.contiguous()
        rows, length = source.shape
        asked = self.stack.asked
        cache = torch.empty(asked.layers, 2, rows, self.longest, asked.width)
        if length:
            shape = (rows, length, rows, self.longest)
            native.read_first(ctypes.byref(asked), address(source), *shape, address(cache))
        before = torch.arange(rows, dtype=torch.int32).unsqueeze(1).repeat(1, self.longest)
        return LeanState(cache, before, source)

    def step(
        self, tokens: Tensor, state: "LeanState", record: Recorder | None = None
    ) -> tuple[Tensor, "LeanState"]:
        """One token each (texts,) -> scores (texts, vocabulary); a full window slides as `GptWriter`'s does."""
        native = kernels()
        assert native is not None
        assert record is None, "what is looked at is not written down here"
        if state.ids.size(1) == self.longest:
            state = self.start(state.ids[:, self.longest - self.longest // 2 :])
        step, rows, tokens = state.ids.size(1), len(tokens), tokens.contiguous()
        state.before[:, step] = torch.arange(rows, dtype=torch.int32)
        scores = torch.empty(rows, self.words)
        native.next_token(
            ctypes.byref(self.stack.asked),
            address(tokens),
            address(state.before),
            rows,
            step,
            state.cache.size(2),
            self.longest,
            address(state.cache),
            address(scores),
        )
        return scores, replace(state, ids=torch.cat([state.ids, tokens.unsqueeze(1)], dim=1))


@dataclass(frozen=True)
class LeanState:
    """What was read and written so far; the state that another is chosen from is not used any more."""

    cache: Tensor  # (layers, keys and values, room for rows, window, width)
    before: Tensor  # (texts, window): the row of the cache that holds each earlier token of a text
    ids: Tensor  # (texts, length)

    def select(self, rows: Tensor) -> "LeanState":
        cache, step = self.cache, self.ids.size(1)
        if len(rows) > cache.size(2):
            cache = cache.new_empty(*cache.shape[:2], len(rows), *cache.shape[3:])
            cache[:, :, : self.cache.size(2), :step] = self.cache[:, :, :, :step]
        return LeanState(cache, self.before[rows].contiguous(), self.ids[rows])


def lean_gpt(model: object) -> LeanGpt | None:
    """The model laid out; None for one that the kernels do not know."""
    if not isinstance(model, GptWriter) or model.training or kernels() is None:
        return None
    decoder = model.gpt.decoder
    known = isinstance(decoder.position, Sinusoidal | Learned) and len(decoder.blocks) > 0
    plain = all(is_plain(cast(DecoderBlock, block)) for block in decoder.blocks)
    return LeanGpt(model) if known and plain else None
