"""Sequence-to-sequence models: embeddings, output layer, and the interfaces for training and decoding."""

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.recorder import Recorder


class ScaledEmbedding(nn.Module):
    """Token embeddings times sqrt(d_model) (Vaswani et al. 2017, section 3.4).

    The initial standard deviation of the table is d_model^-0.5: the scaled vectors have components of variance
    1, and the same table as the output projection gives logits of moderate size.

    Args:
        vocabulary: Number of ids.
        d_model: Size of the vectors.
        padding: Id whose vector is zero and gets no gradient, if any.
    """

    def __init__(self, vocabulary: int, d_model: int, padding: int | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(nn.init.normal_(torch.empty(vocabulary, d_model), std=d_model**-0.5))
        if padding is not None:
            nn.init.zeros_(self.weight.data[padding])

    def forward(self, ids: Tensor) -> Tensor:
        """ids (...) -> (..., d_model)."""
        return functional.embedding(ids, self.weight, padding_idx=self.padding) * self.scale


class Seq2SeqModel(nn.Module):
    """Embeddings of source and target, and the output layer.

    A model adds encoder and decoder: `hidden` for training, `start` and `next_hidden` for decoding.

    Args:
        tie_embeddings: Which weights are one table: "all": source, target and output; "output": target and
            output.
        embedding: Size of the embeddings.
        width: Size of the hidden states that the output layer takes.
        source_vocabulary, target_vocabulary: Number of ids.
        padding: Id of the padding.
    """

    def __init__(
        self,
        tie_embeddings: Literal["all", "output", "none"],
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
            self.source_embedding
            if tie_embeddings == "all"
            else ScaledEmbedding(target_vocabulary, embedding, padding)
        )
        self.output_weight = (
            None if tie_embeddings != "none" else nn.Parameter(torch.empty(target_vocabulary, width))
        )
        if self.output_weight is not None:
            nn.init.xavier_uniform_(self.output_weight)
        self.output_bias = nn.Parameter(torch.zeros(target_vocabulary))

    @property
    def output(self) -> tuple[Tensor, Tensor]:
        """Weight (vocabulary, width) and bias (vocabulary,) of the output layer."""
        weight = self.target_embedding.weight if self.output_weight is None else self.output_weight
        return weight, self.output_bias

    def scores(self, hidden: Tensor) -> Tensor:
        """Scores of the next token: (..., width) -> (..., vocabulary)."""
        return functional.linear(hidden, *self.output)

    def hidden(self, source: Tensor, target: Tensor, record: Recorder | None = None) -> Tensor:
        """Teacher-forced hidden states: ids (batch, source) and (batch, target) -> (batch, target, width)."""
        raise NotImplementedError

    def start(self, source: Tensor) -> Any:
        """Encode the source ids (batch, length) and return the state before the first token."""
        raise NotImplementedError

    def next_hidden(self, tokens: Tensor, state: Any, record: Recorder | None = None) -> tuple[Tensor, Any]:
        """One token per sequence (batch,) -> hidden states of the next (batch, width), and a new state."""
        raise NotImplementedError

    def step(self, tokens: Tensor, state: Any, record: Recorder | None = None) -> tuple[Tensor, Any]:
        """One token per sequence (batch,) -> scores of the next (batch, vocabulary), and a new state."""
        hidden, state = self.next_hidden(tokens, state, record)
        return self.scores(hidden), state

    def forward(self, source: Tensor, target: Tensor, record: Recorder | None = None) -> Tensor:
        """Scores of the next token at every position of the target: (batch, target, vocabulary)."""
        return self.scores(self.hidden(source, target, record))


class State(Protocol):
    """State of a decoder between two steps; immutable, and not stored in a module."""

    def select(self, rows: Tensor) -> Self:
        """The state of the sequences `rows`, in that order; repeats allowed."""


class Decodable(Protocol):
    """A model that generates token by token, such as an RNN, a Transformer or a GPT."""

    def start(self, source: Tensor) -> State:
        """Encode the source ids (batch, length) and return the state before the first token."""

    def step(self, tokens: Tensor, state: State, record: Recorder | None = None) -> tuple[Tensor, State]:
        """One token per sequence (batch,) -> scores of the next (batch, vocabulary), and a new state.

        The old state stays valid: it may be stepped again, by other tokens.
        """


class Trainable(Protocol):
    """A model that is trained on sentence pairs."""

    def hidden(self, source: Tensor, target: Tensor, record: Recorder | None = None) -> Tensor:
        """Teacher-forced hidden states: ids (batch, source) and (batch, target) -> (batch, target, size)."""

    @property
    def output(self) -> tuple[Tensor, Tensor]:
        """Weight (vocabulary, size) and bias (vocabulary,) of the output layer."""


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation: its ids without `</s>`, its score, and its log probability."""

    ids: tuple[int, ...]
    score: float
    log_probability: float
