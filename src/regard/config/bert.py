"""What an encoder in the manner of BERT is made of."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from regard.config.attention import SingleStackSettings
from regard.config.schema import Count, Range, defaults


@dataclass(frozen=True)
@defaults(epsilon=1e-12)
class BertModel(SingleStackSettings):
    """A named size, any part of which may be given by itself; 0 means 'as the size has it'."""

    SIZES: ClassVar = {
        "tiny": {"layers": 2, "d_model": 128, "heads": 2, "d_ff": 512},
        "mini": {"layers": 4, "d_model": 256, "heads": 4, "d_ff": 1024},
        "small": {"layers": 4, "d_model": 512, "heads": 8, "d_ff": 2048},
        "base": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072},
        "large": {"layers": 24, "d_model": 1024, "heads": 16, "d_ff": 4096},
    }
    """Base and large as Devlin et al. 2019 have them, the small ones as Turc et al. 2019."""

    kind: Literal["bert"] = "bert"
    size: Literal["tiny", "mini", "small", "base", "large"] = "base"
    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = "gelu"
    """gelu-tanh: GELU by its tanh approximation, as some checkpoints have it (gelu_new)."""
    segments: Annotated[Count, Range(at_most=1 << 10)] = 2
    max_length: Annotated[Count, Range(at_most=1 << 17)] = 512
    """The most tokens a text may have, [CLS] and [SEP] among them."""

    @property
    def width(self) -> int:
        """The size of a token's vector inside the model."""
        return self.d_model

    def __str__(self) -> str:
        return f"BERT, {self.layers} layers, {self.d_model} / {self.d_ff}, {self.heads} heads"
