"""What a model that writes on is made of: a decoder in the manner of GPT, or counts of runs of tokens."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from regard.config.attention import SingleStackSettings, check_score
from regard.config.schema import Count, Range, Share


@dataclass(frozen=True)
class GptModel(SingleStackSettings):
    """A named size, any part of which may be given by itself; 0 means 'as the size has it'."""

    SIZES: ClassVar = {
        "nano": {"layers": 2, "d_model": 64, "heads": 2, "d_ff": 256, "max_length": 64},
        "micro": {"layers": 4, "d_model": 128, "heads": 4, "d_ff": 512, "max_length": 64},
        "mini": {"layers": 6, "d_model": 192, "heads": 6, "d_ff": 768, "max_length": 256},
        "small": {"layers": 6, "d_model": 384, "heads": 6, "d_ff": 1536, "max_length": 256},
        "gpt": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "max_length": 512, "norm": "post"},
        "gpt2": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "max_length": 1024},
    }
    """gpt as Radford et al. 2018 have it, gpt2 the smallest of Radford et al. 2019; pre-norm unless said."""

    kind: Literal["gpt"] = "gpt"
    size: Literal["nano", "micro", "mini", "small", "gpt", "gpt2"] = "micro"
    max_length: Annotated[int, Range(at_least=0, at_most=1 << 17)] = 0
    """The window: how many tokens it sees at once."""
    norm: Literal["pre", "post"] | None = None
    """As the size has it, unless given."""
    position: Literal["learned", "sinusoidal", "relative", "rotary", "alibi"] = "learned"
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu"] = "gelu-tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm is None:
            object.__setattr__(self, "norm", "pre")
        if self.position in ("sinusoidal", "rotary") and (self.d_model // self.heads) % 2:
            raise ValueError(f"position: {self.position} positions come in pairs; a head's size must be even")
        check_score(self.score, self.position)
        if self.max_length < 2:
            raise ValueError("max_length: a window of one token has nothing to guess the next one from")

    @property
    def width(self) -> int:
        """The size of a token's vector inside the model."""
        return self.d_model

    def __str__(self) -> str:
        size = f"{self.layers} layers, {self.d_model} / {self.d_ff}, {self.heads} heads"
        return f"GPT, {size}, window {self.max_length}"


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
