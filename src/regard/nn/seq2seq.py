"""What every model of sentence pairs has at its two ends: vectors for words, and words from vectors."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.embeddings import ScaledEmbedding
from regard.nn.recorder import Recorder


class Seq2SeqModel(nn.Module):
    """Embeddings of both languages and the output table, one and the same where they are shared.

    A model adds what lies between: `hidden`, and `start` and `next_hidden` for the search. `padding` is the id
    that stands for nothing; the output takes vectors of `width`.
    """

    def __init__(
        self,
        share: Literal["all", "output", "none"],
        embedding: int,
        width: int,
        source_vocabulary: int,
        target_vocabulary: int,
        padding: int,
    ) -> None:
        super().__init__()
        self.padding = padding
        self.source_embedding = ScaledEmbedding(source_vocabulary, embedding, padding)
        self.target_embedding = (
            self.source_embedding if share == "all" else ScaledEmbedding(target_vocabulary, embedding, padding)
        )
        self.output_weight = None if share != "none" else nn.Parameter(torch.empty(target_vocabulary, width))
        if self.output_weight is not None:
            nn.init.xavier_uniform_(self.output_weight)
        self.output_bias = nn.Parameter(torch.zeros(target_vocabulary))

    @property
    def output(self) -> tuple[Tensor, Tensor]:
        """Weight (vocabulary, width) and bias (vocabulary,) that turn a hidden vector into scores."""
        weight = self.target_embedding.weight if self.output_weight is None else self.output_weight
        return weight, self.output_bias

    def scores(self, hidden: Tensor) -> Tensor:
        """Scores of the next token: (..., width) -> (..., vocabulary)."""
        return functional.linear(hidden, *self.output)

    def hidden(self, source: Tensor, target: Tensor, record: Recorder | None = None) -> Tensor:
        """Source (batch, source) and target so far (batch, target) -> (batch, target, width)."""
        raise NotImplementedError

    def rows(self, source: Tensor, target: Tensor, real: Tensor) -> Tensor:
        """`hidden` at the places `real` (tokens,) of the target, counted through the batch: (tokens, width).

        For training; `real` are all places that are not padding.
        """
        return self.hidden(source, target).flatten(0, 1).index_select(0, real)

    def start(self, source: Tensor) -> Any:
        """Read the source ids (batch, length) and be ready for the first token."""
        raise NotImplementedError

    def next_hidden(self, tokens: Tensor, state: Any, record: Recorder | None = None) -> tuple[Tensor, Any]:
        """Take one token each (batch,), give what the next one is told by (batch, width), and the state."""
        raise NotImplementedError

    def step(self, tokens: Tensor, state: Any, record: Recorder | None = None) -> tuple[Tensor, Any]:
        """One token for each sentence (batch,) -> scores of the next (batch, vocabulary), and the state."""
        hidden, state = self.next_hidden(tokens, state, record)
        return self.scores(hidden), state

    def forward(self, source: Tensor, target: Tensor, record: Recorder | None = None) -> Tensor:
        """Scores of the next token at every place of the target: (batch, target, vocabulary)."""
        return self.scores(self.hidden(source, target, record))


class State(Protocol):
    """Everything a decoder knows between two steps. It travels; no module keeps any of it."""

    def select(self, rows: Tensor) -> Self:
        """The state of the sentences `rows`, in that order; repeats allowed."""


class Decodable(Protocol):
    """A model that can be asked for one token after another: RNN, Transformer or GPT alike."""

    def start(self, source: Tensor) -> State:
        """Read the source ids (batch, length) and be ready for the first token."""

    def step(self, tokens: Tensor, state: State, record: Recorder | None = None) -> tuple[Tensor, State]:
        """Take one token each (batch,), give scores of the next (batch, vocabulary) and the state after it."""


class Trainable(Protocol):
    """A model that learns from pairs: what the loss asks."""

    def hidden(self, source: Tensor, target: Tensor, record: Recorder | None = None) -> Tensor:
        """Source (batch, source) and target so far (batch, target) -> (batch, target, size)."""

    def rows(self, source: Tensor, target: Tensor, real: Tensor) -> Tensor:
        """`hidden` at the places `real` (tokens,) of the target, all that are not padding: (tokens, size)."""

    @property
    def output(self) -> tuple[Tensor, Tensor]:
        """Weight (vocabulary, size) and bias (vocabulary,) that turn a hidden vector into scores."""


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation: its ids without `</s>`, its score, and its log probability."""

    ids: tuple[int, ...]
    score: float
    log_probability: float
