"""The loaded model of a classification run."""

from pathlib import Path

from regard.errors import RegardError
from regard.tasks.classification.config import ClassificationRecipe
from regard.tasks.classification.task import (
    ClassificationTask,
    LabelPrediction,
    label_prediction,
    label_probabilities,
)
from regard.tasks.encoder.examples import Texts, encode_texts, split_pairs
from regard.tasks.encoder.model import TrainedEncoder
from regard.tasks.encoder.reduction import TextReductionCase
from regard.tasks.reduction_benchmark import evenly_spaced


class Classifier(TrainedEncoder[ClassificationTask]):
    """A BERT or a GPT that labels texts, or pairs of texts."""

    does = "labels texts"
    recipe: ClassificationRecipe

    def task(self) -> ClassificationTask:
        return ClassificationTask(self.recipe)

    @property
    def pairs(self) -> bool | None:
        """Whether the input is pairs of texts; None for an imported model, which accepts both."""
        return self.recipe.data.pairs if self.recipe.data.train else None

    @property
    def reads_pairs(self) -> bool:
        return self.recipe.data.pairs

    def classify(self, texts: Texts) -> list[LabelPrediction]:
        """The label of each text or pair, with the probability of every label.

        Raises:
            RegardError: A text is empty, or a pair where the model labels single texts, or the other way round.
        """
        first, second = split_pairs(texts)
        for number, (text, pair) in enumerate(zip(first, second, strict=True), start=1):
            if self.pairs not in (None, pair is not None):
                expected = "pairs of texts" if self.pairs else "single texts"
                raise RegardError(f"text {number}: {self.folder.path} was trained on {expected}")
            if not text.strip() or (pair is not None and not pair.strip()):
                raise RegardError(f"text {number} is empty; there is nothing to label")
        if not first:
            return []
        examples, _ = encode_texts(self.tokenizer, first, second, self.max_length)
        return [label_prediction(self.labels, row) for row in label_probabilities(self.model, examples)]

    def reduction_case(self, data: Path | None, limit: int) -> TextReductionCase:
        """The model for `regard bench reduction`, with at most `limit` examples; 0 means all."""
        task = self.task_on(data)
        task.splits["test"] = task.splits["test"][evenly_spaced(len(task.splits["test"]), limit)]
        examples, _ = task.examples(self.tokenizer, "test")
        return TextReductionCase(self, task, examples, "accuracy", first_only=True)
