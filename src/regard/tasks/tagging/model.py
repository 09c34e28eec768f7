"""The loaded model of a tagging run."""

from collections.abc import Sequence
from pathlib import Path

from regard.tasks.encoder.model import TrainedEncoder
from regard.tasks.encoder.reduction import TextReductionCase
from regard.tasks.reduction_benchmark import evenly_spaced
from regard.tasks.tagging.config import TaggingRecipe
from regard.tasks.tagging.task import (
    TaggedSentence,
    TaggingTask,
    encode_words,
    tagged_sentence,
    word_probabilities,
)
from regard.tokenization import split_words


class Tagger(TrainedEncoder[TaggingTask]):
    """A BERT that tags words."""

    does = "tags words"
    recipe: TaggingRecipe

    def task(self) -> TaggingTask:
        return TaggingTask(self.recipe)

    def tag(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[TaggedSentence]:
        """A tag for each word; a sentence given as one string is split into words by rule."""
        words = [split_words(text) if isinstance(text, str) else list(text) for text in sentences]
        if not words:
            return []
        segments = encode_words(self.tokenizer, words, self.max_length)
        probabilities = word_probabilities(self.model, segments, [len(sentence) for sentence in words])
        return [
            tagged_sentence(sentence, self.labels, rows)
            for sentence, rows in zip(words, probabilities, strict=True)
        ]

    def reduction_case(self, data: Path | None, limit: int) -> TextReductionCase:
        """The model for `regard bench reduction`, with at most `limit` examples; 0 means all."""
        task = self.task_on(data)
        task.splits["test"] = task.splits["test"][evenly_spaced(len(task.splits["test"]), limit)]
        examples = [segment.example for segment in task.segments(self.tokenizer, "test")]
        return TextReductionCase(self, task, examples, "f1", first_only=False)
