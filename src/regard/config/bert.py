"""What an encoder in the manner of BERT is made of."""

from dataclasses import dataclass
from typing import Annotated, Literal

from regard.config.attention import ScoreName
from regard.config.schema import Count, Layers, Positive, Range, Share, Size

BERT_SIZES: dict[str, dict[str, int]] = {
    "tiny": {"layers": 2, "d_model": 128, "heads": 2, "d_ff": 512},
    "mini": {"layers": 4, "d_model": 256, "heads": 4, "d_ff": 1024},
    "small": {"layers": 4, "d_model": 512, "heads": 8, "d_ff": 2048},
    "base": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072},
    "large": {"layers": 24, "d_model": 1024, "heads": 16, "d_ff": 4096},
}
"""Base and large as Devlin et al. 2019 have them, the small ones as Turc et al. 2019."""


@dataclass(frozen=True)
class BertModel:
    """A named size, any part of which may be given by itself; 0 means 'as the size has it'."""

    kind: Literal["bert"] = "bert"
    start: str | None = None
    """A run to start from: its sizes, its weights and its vocabulary."""
    size: Literal["tiny", "mini", "small", "base", "large"] = "base"
    layers: Layers = 0
    d_model: Size = 0
    heads: Layers = 0
    d_ff: Size = 0
    score: ScoreName = "scaled-dot"
    """How well a key fits a query, in every attention."""
    dropout: Share = 0.1
    attention_dropout: Share = 0.1
    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = "gelu"
    """gelu-tanh: GELU by its tanh approximation, as some checkpoints have it (gelu_new)."""
    epsilon: Positive = 1e-12
    """What keeps a layer norm from dividing by nothing."""
    segments: Annotated[Count, Range(at_most=1 << 10)] = 2
    longest: Annotated[Count, Range(at_most=1 << 17)] = 512
    """The most tokens a text may have, [CLS] and [SEP] among them."""

    def __post_init__(self) -> None:
        for name, value in BERT_SIZES[self.size].items():
            if not getattr(self, name):
                object.__setattr__(self, name, value)
        if self.d_model % self.heads:
            raise ValueError(f"heads: {self.heads} heads do not divide d_model {self.d_model}")

    @property
    def width(self) -> int:
        """The size of a token's vector inside the model."""
        return self.d_model

    def __str__(self) -> str:
        return f"BERT, {self.layers} layers, {self.d_model} / {self.d_ff}, {self.heads} heads"
