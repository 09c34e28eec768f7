"""The recipe of language modeling."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config.data import Files
from regard.config.models import (
    GptConfig,
    NgramConfig,
)
from regard.config.schema import Range
from regard.config.training import TextTrainConfig
from regard.tasks.encoder.config import TextRecipe, check_best_by


@dataclass(frozen=True)
class TextDataConfig(Files):
    """Any text, plain or .gz; where validation has no file, the end of the training text is held out for it."""


@dataclass(frozen=True)
class GptTokenizerConfig:
    """What a token is, where no run is started from; that run's own tokens are used otherwise."""

    kind: Literal["bpe", "characters", "bytes"] = "bpe"
    """bpe: runs of bytes that are frequent together, as GPT-2 has them."""
    vocab_size: Annotated[int, Range(at_least=300, at_most=1 << 24)] | None = None
    """bpe: how many tokens there are; 8,000 unless given. GPT has 40,000."""

    def __post_init__(self) -> None:
        if self.kind == "bpe" and self.vocab_size is None:
            object.__setattr__(self, "vocab_size", 8000)
        if self.kind != "bpe" and self.vocab_size is not None:
            raise ValueError(f"vocab_size: {self.kind} are as many as there are; leave it out")


@dataclass(frozen=True)
class LanguageModelingRecipe(TextRecipe):
    """From plain text to a model that writes on."""

    task: Literal["language-modeling"]
    data: TextDataConfig = field(default_factory=TextDataConfig)
    tokenizer: GptTokenizerConfig = field(default_factory=GptTokenizerConfig)
    model: GptConfig | NgramConfig = field(default_factory=GptConfig)
    train: TextTrainConfig = field(default_factory=lambda: TextTrainConfig(epochs=1))

    def __post_init__(self) -> None:
        check_best_by(self.train, ("loss",))
        if self.train.smoothing:
            raise ValueError("train.smoothing: the next token is the one that stands there; leave it out")
