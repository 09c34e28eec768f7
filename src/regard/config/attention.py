"""What the attention models share: the names of the scores, and the sizes of a Transformer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from regard.config.schema import Layers, Positive, Share, Size

ScoreName = Literal["scaled-dot", "dot", "general", "additive", "concat", "gaussian", "cosine"]


def check_score(score: ScoreName, position: str) -> None:
    """Refuse a position scheme that is not defined for the score.

    Raises:
        ValueError: Relative positions with another score than the scaled dot product.
    """
    if position == "relative" and score != "scaled-dot":
        raise ValueError(
            f'score: relative positions are defined for the "scaled-dot" score, not for "{score}"; '
            "choose another position or leave score out"
        )


@dataclass(frozen=True)
class ModelSettings:
    """Keys of every model that is trained from tokens or patches."""

    kind: str
    start: str | None = None
    """A run to start from: its weights and its vocabulary, for a BERT, GPT or ViT its sizes too."""
    dropout: Share = 0.1


@dataclass(frozen=True)
class TransformerSettings(ModelSettings):
    """A named size, any part of which may be given by itself; 0 means 'as the size has it'."""

    SIZES: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """What each named size stands for, key by key."""

    size: str = ""
    d_model: Size = 0
    heads: Layers = 0
    d_ff: Size = 0
    score: ScoreName = "scaled-dot"
    """How well a key fits a query, in every attention."""
    attention_dropout: Share = 0.1

    def __post_init__(self) -> None:
        for name, value in self.SIZES[self.size].items():
            if not getattr(self, name):
                object.__setattr__(self, name, value)
        if self.d_model % self.heads:
            raise ValueError(f"heads: {self.heads} heads do not divide d_model {self.d_model}")


@dataclass(frozen=True)
class SingleStackSettings(TransformerSettings):
    """A Transformer of one stack of layers: BERT, GPT, ViT."""

    layers: Layers = 0
    epsilon: Positive = 1e-5
    """LayerNorm epsilon."""
