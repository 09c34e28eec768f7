"""The recipe of language modeling."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config.data import FilesDataConfig
from regard.config.models import (
    GptConfig,
    NgramConfig,
)
from regard.config.schema import Range
from regard.config.training import TextTrainConfig
from regard.tasks.encoder.config import TextRecipe, check_best_by


@dataclass(frozen=True)
class TextDataConfig(FilesDataConfig):
    """Plain text, also as .gz; without a validation file the end of the training text is held out."""


@dataclass(frozen=True)
class GptTokenizerConfig:
    """The tokenizer of a new model; a model that starts from a run uses the tokenizer of that run."""

    kind: Literal["bpe", "characters", "bytes"] = "bpe"
    """bpe: byte-level byte-pair encoding, as in GPT-2."""
    vocab_size: Annotated[int, Range(at_least=300, at_most=1 << 24)] | None = None
    """bpe: number of tokens; the default is 8,000. GPT has 40,000."""

    def __post_init__(self) -> None:
        if self.kind == "bpe" and self.vocab_size is None:
            object.__setattr__(self, "vocab_size", 8000)
        if self.kind != "bpe" and self.vocab_size is not None:
            raise ValueError(f'vocab_size: this is for kind = "bpe", not for {self.kind}; remove it')


@dataclass(frozen=True)
class LanguageModelingRecipe(TextRecipe):
    """A language model from plain text."""

    task: Literal["language-modeling"]
    data: TextDataConfig = field(default_factory=TextDataConfig)
    tokenizer: GptTokenizerConfig = field(default_factory=GptTokenizerConfig)
    model: GptConfig | NgramConfig = field(default_factory=GptConfig)
    train: TextTrainConfig = field(default_factory=lambda: TextTrainConfig(epochs=1))

    def __post_init__(self) -> None:
        check_best_by(self.train, ("loss",))
        if self.train.smoothing:
            raise ValueError("train.smoothing: label smoothing is not supported for language models; remove it")
