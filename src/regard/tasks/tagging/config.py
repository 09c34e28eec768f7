"""The recipe of tagging."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config.data import FilesDataConfig
from regard.config.models import (
    BertConfig,
    TokenReductionConfig,
)
from regard.config.schema import Count
from regard.config.training import TextTrainConfig
from regard.tasks.encoder.config import TextRecipe, WordPieceConfig, check_best_by


@dataclass(frozen=True)
class TaggedDataConfig(FilesDataConfig):
    """CoNLL columns: one word per line with its tag in the last column, a blank line between sentences."""

    max_length: Count = 256
    """Most tokens of an example; longer sentences are split into several."""


@dataclass(frozen=True)
class TaggingRecipe(TextRecipe):
    """Tagging of words, such as named entities, with a BERT fine-tuned on tagged sentences."""

    task: Literal["tagging"]
    data: TaggedDataConfig = field(default_factory=TaggedDataConfig)
    tokenizer: WordPieceConfig = field(default_factory=WordPieceConfig)
    model: BertConfig = field(default_factory=BertConfig)
    reduce: TokenReductionConfig = field(default_factory=TokenReductionConfig)
    train: TextTrainConfig = field(default_factory=lambda: TextTrainConfig(epochs=3))

    def __post_init__(self) -> None:
        check_best_by(self.train, ("f1", "accuracy", "loss"))
        if self.reduce.prune != "none":
            raise ValueError("reduce.prune: every token needs a tag, so none can be pruned; use reduce.merge")
