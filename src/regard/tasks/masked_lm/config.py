"""The recipe of BERT pre-training."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config.data import Files
from regard.config.models import (
    BertConfig,
)
from regard.config.schema import Range
from regard.config.training import TextTrainConfig
from regard.tasks.encoder.config import TextRecipe, WordPieceConfig, check_best_by


@dataclass(frozen=True)
class DocumentDataConfig(Files):
    """Plain text: sentences or paragraphs in lines, a blank line between documents."""

    max_length: Annotated[int, Range(at_least=8)] = 128
    """The most tokens of an example."""
    mask: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of the tokens to be guessed: 80% of them hidden, 10% replaced by chance, 10% left."""
    whole_words: bool = False
    """Hide all pieces of a word or none."""
    next_sentence: bool = True
    """Also learn whether the second part of a text follows the first."""


@dataclass(frozen=True)
class MaskedLmRecipe(TextRecipe):
    """From plain text to a BERT: hidden words and next sentences."""

    task: Literal["masked-lm"]
    data: DocumentDataConfig = field(default_factory=DocumentDataConfig)
    tokenizer: WordPieceConfig = field(default_factory=WordPieceConfig)
    model: BertConfig = field(default_factory=BertConfig)
    train: TextTrainConfig = field(default_factory=lambda: TextTrainConfig(epochs=3))

    def __post_init__(self) -> None:
        check_best_by(self.train, ("accuracy", "loss"))
