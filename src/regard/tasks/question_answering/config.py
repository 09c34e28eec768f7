"""The recipe of extractive question answering."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config.data import FilesDataConfig
from regard.config.models import (
    BertConfig,
)
from regard.config.schema import Count, Range, Whole
from regard.config.training import TextTrainConfig
from regard.tasks.encoder.config import TextRecipe, WordPieceConfig, check_best_by


@dataclass(frozen=True)
class QuestionDataConfig(FilesDataConfig):
    """Questions on paragraphs in the JSON format of SQuAD 1.1."""

    max_length: Annotated[int, Range(at_least=32)] = 256
    """Most tokens of a question with a window of its paragraph."""
    overlap: Whole = 96
    """Tokens by which neighbouring windows of a long paragraph overlap."""
    longest_question: Count = 48
    """Most tokens of a question; longer ones are truncated."""
    longest_answer: Count = 30
    """Most tokens of an answer."""

    def __post_init__(self) -> None:
        window = self.max_length - self.longest_question - 3
        if window <= self.overlap:
            raise ValueError(
                f"overlap: with max_length {self.max_length} and longest_question {self.longest_question} a "
                f"window has {max(0, window)} tokens, which must be more than the overlap of {self.overlap}"
            )


@dataclass(frozen=True)
class QuestionAnsweringRecipe(TextRecipe):
    """Extractive question answering with a BERT fine-tuned on questions about paragraphs."""

    task: Literal["question-answering"]
    data: QuestionDataConfig = field(default_factory=QuestionDataConfig)
    tokenizer: WordPieceConfig = field(default_factory=WordPieceConfig)
    model: BertConfig = field(default_factory=BertConfig)
    train: TextTrainConfig = field(default_factory=lambda: TextTrainConfig(epochs=3))

    def __post_init__(self) -> None:
        check_best_by(self.train, ("f1", "exact", "loss"))
