"""What a model that writes on is made of: a decoder in the manner of GPT, or counts of runs of tokens."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from regard.config.attention import ScoreName, check_score
from regard.config.schema import Count, Layers, Positive, Range, Share, Size

GPT_SIZES: dict[str, dict[str, Any]] = {
    "nano": {"layers": 2, "d_model": 64, "heads": 2, "d_ff": 256, "longest": 64},
    "micro": {"layers": 4, "d_model": 128, "heads": 4, "d_ff": 512, "longest": 64},
    "mini": {"layers": 6, "d_model": 192, "heads": 6, "d_ff": 768, "longest": 256},
    "small": {"layers": 6, "d_model": 384, "heads": 6, "d_ff": 1536, "longest": 256},
    "gpt": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "longest": 512, "norm": "post"},
    "gpt2": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "longest": 1024},
}
"""gpt as Radford et al. 2018 have it, gpt2 the smallest of Radford et al. 2019; norms are pre unless said."""


@dataclass(frozen=True)
class GptModel:
    """A named size, any part of which may be given by itself; 0 means 'as the size has it'."""

    kind: Literal["gpt"] = "gpt"
    start: str | None = None
    """A run to start from: its sizes, its weights and its vocabulary."""
    size: Literal["nano", "micro", "mini", "small", "gpt", "gpt2"] = "micro"
    layers: Layers = 0
    d_model: Size = 0
    heads: Layers = 0
    d_ff: Size = 0
    longest: Annotated[int, Range(at_least=0, at_most=1 << 17)] = 0
    """The window: how many tokens it sees at once."""
    norm: Literal["pre", "post"] | None = None
    """As the size has it, unless given."""
    position: Literal["learned", "sinusoidal", "relative", "rotary", "alibi"] = "learned"
    score: ScoreName = "scaled-dot"
    """How well a key fits a query, in every attention."""
    dropout: Share = 0.1
    attention_dropout: Share = 0.1
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu"] = "gelu-tanh"
    epsilon: Positive = 1e-5
    """What keeps a layer norm from dividing by nothing."""

    def __post_init__(self) -> None:
        for name, value in {"norm": "pre", **GPT_SIZES[self.size]}.items():
            if not getattr(self, name):
                object.__setattr__(self, name, value)
        if self.d_model % self.heads:
            raise ValueError(f"heads: {self.heads} heads do not divide d_model {self.d_model}")
        if self.position in ("sinusoidal", "rotary") and (self.d_model // self.heads) % 2:
            raise ValueError(f"position: {self.position} positions come in pairs; a head's size must be even")
        check_score(self.score, self.position)
        if self.longest < 2:
            raise ValueError("longest: a window of one token has nothing to guess the next one from")

    @property
    def width(self) -> int:
        """The size of a token's vector inside the model."""
        return self.d_model

    def __str__(self) -> str:
        size = f"{self.layers} layers, {self.d_model} / {self.d_ff}, {self.heads} heads"
        return f"GPT, {size}, window {self.longest}"


@dataclass(frozen=True)
class NgramModel:
    """Runs of tokens counted, and fewer where there were none (interpolated Kneser-Ney)."""

    kind: Literal["ngram"]
    order: Annotated[Count, Range(at_most=16)] = 5
    """The longest run: a token is guessed from the order - 1 before it."""
    discount: Share = 0.0
    """Taken from every count and given to what was not seen; 0 means by the counts, for each length of run."""

    def __str__(self) -> str:
        return f"counts of runs of up to {self.order} tokens"
