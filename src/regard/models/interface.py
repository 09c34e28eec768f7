"""What search, training and inspection may ask of a model: three questions, one state."""

from dataclasses import dataclass
from typing import Protocol, Self

from torch import Tensor

from regard.attention import Recorder


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
