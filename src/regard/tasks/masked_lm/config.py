"""The recipe of BERT pre-training."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config.data import FilesDataConfig
from regard.config.models import (
    BertConfig,
)
from regard.config.schema import Range
from regard.config.training import TextTrainConfig
from regard.tasks.encoder.config import TextRecipe, WordPieceConfig, check_best_by


@dataclass(frozen=True)
class DocumentDataConfig(FilesDataConfig):
    """Plain text: one sentence or paragraph per line, a blank line between documents."""

    max_length: Annotated[int, Range(at_least=8)] = 128
    """Most tokens of an example."""
    mask: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of the tokens to be predicted: 80% of them masked, 10% replaced at random, 10% unchanged."""
    whole_words: bool = False
    """Whole-word masking: mask all pieces of a word or none."""
    next_sentence: bool = True
    """Also train on next-sentence prediction."""


@dataclass(frozen=True)
class MaskedLmRecipe(TextRecipe):
    """BERT pre-training on plain text: masked words and next sentences."""

    task: Literal["masked-lm"]
    data: DocumentDataConfig = field(default_factory=DocumentDataConfig)
    tokenizer: WordPieceConfig = field(default_factory=WordPieceConfig)
    model: BertConfig = field(default_factory=BertConfig)
    train: TextTrainConfig = field(default_factory=lambda: TextTrainConfig(epochs=3))

    def __post_init__(self) -> None:
        check_best_by(self.train, ("accuracy", "loss"))
