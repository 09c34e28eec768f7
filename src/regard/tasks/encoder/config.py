"""Recipe sections that every task of a BERT shares, and the recipe of a BERT without a task."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config.models import (
    BertConfig,
    EmbedConfig,
    GptConfig,
    NgramConfig,
)
from regard.config.recipes import Recipe
from regard.config.schema import Count, Range
from regard.config.training import TextTrainConfig


@dataclass(frozen=True)
class WordPieceConfig:
    """How a vocabulary is learned where no run is started from; that run's own is used otherwise."""

    vocab_size: Annotated[int, Range(at_least=8)] = 8000
    min_count: Count = 2
    lowercase: bool = True
    """Letters are made small and lose their accents."""


def check_best(train: TextTrainConfig, allowed: tuple[str, ...]) -> None:
    if train.best_by not in allowed:
        raise ValueError(f"train.best_by: this task has no {train.best_by}; allowed: {', '.join(allowed)}")


@dataclass(frozen=True)
class TextRecipe(Recipe):
    """A recipe whose model reads or writes one text: a BERT, a GPT or an n-gram model."""

    model: BertConfig | GptConfig | NgramConfig


@dataclass(frozen=True)
class EncoderRecipe(TextRecipe):
    """A BERT without a task, as it is imported; other trainings start from it."""

    task: Literal["encoder"]
    model: BertConfig = field(default_factory=BertConfig)
    embed: EmbedConfig = field(default_factory=EmbedConfig)
