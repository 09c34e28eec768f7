"""Recipe sections shared by the tasks of a BERT, and the recipe of a BERT without a task."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config.models import BertConfig, EmbedConfig, GptConfig, NgramConfig
from regard.config.recipes import Recipe
from regard.config.schema import Count, Range
from regard.config.training import TextTrainConfig


@dataclass(frozen=True)
class WordPieceConfig:
    """How a WordPiece vocabulary is trained; with `model.start` the vocabulary of that run is used instead."""

    vocab_size: Annotated[int, Range(at_least=8)] = 8000
    min_count: Count = 2
    lowercase: bool = True
    """Lower-case the text and strip accents."""


def check_best_by(train: TextTrainConfig, allowed: tuple[str, ...]) -> None:
    """Refuse a `train.best_by` that the task does not measure."""
    if train.best_by not in allowed:
        raise ValueError(f"train.best_by: this task has no {train.best_by}; allowed: {', '.join(allowed)}")


@dataclass(frozen=True)
class TextRecipe(Recipe):
    """A recipe whose model reads or writes a single text: a BERT, a GPT or an n-gram model."""

    model: BertConfig | GptConfig | NgramConfig


@dataclass(frozen=True)
class EncoderRecipe(TextRecipe):
    """A BERT without a task, as it is imported; training of other tasks starts from it."""

    task: Literal["encoder"]
    model: BertConfig = field(default_factory=BertConfig)
    embed: EmbedConfig = field(default_factory=EmbedConfig)
