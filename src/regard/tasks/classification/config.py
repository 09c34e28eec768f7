"""The recipe of text classification."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config.data import FilesDataConfig
from regard.config.models import (
    BertConfig,
    GptConfig,
    TokenReductionConfig,
)
from regard.config.schema import Count, NotNegative
from regard.config.training import TextTrainConfig
from regard.tasks.encoder.config import TextRecipe, WordPieceConfig, check_best_by


@dataclass(frozen=True)
class LabelledDataConfig(FilesDataConfig):
    """Texts or pairs of texts with a label: .tsv, .csv or .jsonl, also compressed as .gz."""

    pairs: bool = False
    """Whether an example is a pair of texts."""
    text: str | None = None
    pair: str | None = None
    label: str | None = None
    """Columns by name, or by number from 1 without a header; usual names are found automatically."""
    max_length: Count = 256
    """Most tokens of an example; longer ones are truncated and counted."""


@dataclass(frozen=True)
class ClassificationTrainConfig(TextTrainConfig):
    """Training of a classifier."""

    language_loss: NotNegative = 0.0
    """GPT: weight of the auxiliary language-modeling loss (0.5 in Radford et al. 2018)."""


@dataclass(frozen=True)
class ClassificationRecipe(TextRecipe):
    """Text classification with a BERT or a GPT, fine-tuned on labelled texts or pairs."""

    task: Literal["classification"]
    data: LabelledDataConfig = field(default_factory=LabelledDataConfig)
    tokenizer: WordPieceConfig = field(default_factory=WordPieceConfig)
    model: BertConfig | GptConfig = field(default_factory=BertConfig)
    reduce: TokenReductionConfig = field(default_factory=TokenReductionConfig)
    train: ClassificationTrainConfig = field(default_factory=lambda: ClassificationTrainConfig(epochs=3))

    def __post_init__(self) -> None:
        check_best_by(self.train, ("accuracy", "f1", "loss"))
        if self.train.language_loss and not isinstance(self.model, GptConfig):
            raise ValueError('train.language_loss: a BERT predicts no next token; set model.kind = "gpt"')
        if self.reduce and isinstance(self.model, GptConfig):
            raise ValueError(
                "reduce: tokens are reduced in a BERT or a Vision Transformer; a GPT needs all of them"
            )
        if self.data.pair is not None and not self.data.pairs:
            raise ValueError("data.pair: a second text is read only if data.pairs is true")
