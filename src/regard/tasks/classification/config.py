"""The recipe of text classification."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config.data import Files
from regard.config.models import (
    BertConfig,
    GptConfig,
    TokenReductionConfig,
)
from regard.config.schema import Count, NotNegative
from regard.config.training import TextTrainConfig
from regard.tasks.encoder.config import TextRecipe, WordPieceConfig, check_best_by


@dataclass(frozen=True)
class LabelledDataConfig(Files):
    """Texts or pairs of texts with a label: .tsv, .csv or .jsonl, also as .gz."""

    pairs: bool = False
    """Whether an example is two texts."""
    text: str | None = None
    pair: str | None = None
    label: str | None = None
    """Columns by name, or by number from 1 where there is no header; usual names are found without."""
    max_length: Count = 256
    """The most tokens of an example; longer ones are cut, and counted."""


@dataclass(frozen=True)
class ClassificationTrainConfig(TextTrainConfig):
    """How a model learns labels."""

    language_loss: NotNegative = 0.0
    """GPT: how much guessing the text itself counts beside the label (Radford et al. 2018 have 0.5)."""


@dataclass(frozen=True)
class ClassificationRecipe(TextRecipe):
    """From labelled texts or pairs to a model that labels others."""

    task: Literal["classification"]
    data: LabelledDataConfig = field(default_factory=LabelledDataConfig)
    tokenizer: WordPieceConfig = field(default_factory=WordPieceConfig)
    model: BertConfig | GptConfig = field(default_factory=BertConfig)
    reduce: TokenReductionConfig = field(default_factory=TokenReductionConfig)
    train: ClassificationTrainConfig = field(default_factory=lambda: ClassificationTrainConfig(epochs=3))

    def __post_init__(self) -> None:
        check_best_by(self.train, ("accuracy", "f1", "loss"))
        if self.train.language_loss and not isinstance(self.model, GptConfig):
            raise ValueError('train.language_loss: a BERT guesses no next token; model.kind = "gpt" does')
        if self.reduce and isinstance(self.model, GptConfig):
            raise ValueError(
                "reduce: tokens become fewer in a BERT or a Vision Transformer; a GPT needs all of them"
            )
        if self.data.pair is not None and not self.data.pairs:
            raise ValueError("data.pair: a second text is read where data.pairs is true, and it is false")
