"""Classification of texts and pairs of texts: sentiment, inference, and any other labels."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from torch import nn

from regard.config.models import GptConfig
from regard.data.examples import Example, FixedExamples
from regard.data.labelled_text import (
    LabelledColumns,
    LabelledText,
    check_labels,
    distinct_labels,
    label_distribution,
    read_labelled,
)
from regard.metrics import score_labels
from regard.nn.build import Head
from regard.tasks.classification.config import ClassificationRecipe
from regard.tasks.encoder import training as text_training
from regard.tasks.encoder.examples import batched_outputs, encode_texts
from regard.tasks.encoder.training import MakeObjective
from regard.tasks.metrics_log import PhaseProgress, ProgressListener
from regard.tasks.results import TaskRun, TaskScores
from regard.tokenization import BertTokenizer, GptTaskTokenizer
from regard.training.objectives import ClassObjective, GptClassObjective


def train(
    recipe: ClassificationRecipe, out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> TaskRun | None:
    """Train into the folder `out`, and measure on the test file or on the validation examples."""
    return text_training.train(recipe, ClassificationTask, out, listener, resume=resume)


class ClassificationTask:
    """Reads, encodes and measures labelled texts; a `TextTask`."""

    head: Head = "classes"

    def __init__(self, recipe: ClassificationRecipe) -> None:
        self.data = recipe.data
        self.objective: MakeObjective = ClassObjective
        if isinstance(recipe.model, GptConfig):
            self.objective = partial(GptClassObjective, language=recipe.train.language_loss)
        self.max_length = min(recipe.data.max_length, recipe.model.max_length)
        self.labels: list[str] = []
        self.splits: dict[str, list[LabelledText]] = {}

    def read_split(self, split: str, path: Path) -> None:
        data = self.data
        columns = LabelledColumns(data.text, data.pair, data.label)
        self.splits[split] = list(read_labelled(path, columns, pairs=data.pairs))
        self.labels = self.labels or distinct_labels(self.splits[split], path)
        check_labels(self.splits[split], self.labels, path)

    def split_key(self, item: LabelledText) -> str:
        return item.text

    def data_summary(self) -> Iterator[str]:
        counts = ", ".join(f"{len(examples):,} for {split}" for split, examples in self.splits.items())
        yield f"examples: {counts}"
        yield f"labels: {label_distribution(self.splits['train'])}"

    def vocabulary_texts(self) -> Iterable[str]:
        for example in self.splits["train"]:
            yield example.text
            if example.pair is not None:
                yield example.pair

    def encode(
        self, tokenizer: BertTokenizer | GptTaskTokenizer, log: Callable[[str], object]
    ) -> FixedExamples:
        examples, truncated = self.examples(tokenizer, "train")
        if truncated:
            log(
                f"{truncated:,} of {len(examples):,} examples are longer than {self.max_length} tokens "
                "and are truncated"
            )
        return FixedExamples(examples)

    def examples(self, tokenizer: BertTokenizer | GptTaskTokenizer, split: str) -> tuple[list[Example], int]:
        """The examples of a split, and how many of them were truncated."""
        labelled = self.splits[split]
        numbers = [self.labels.index(example.label) for example in labelled]
        return encode_texts(
            tokenizer,
            [example.text for example in labelled],
            [example.pair for example in labelled],
            self.max_length,
            numbers,
        )

    def measure(
        self,
        model: nn.Module,
        tokenizer: BertTokenizer | GptTaskTokenizer,
        split: str,
        progress: PhaseProgress | None = None,
    ) -> TaskScores:
        targets = [example.label for example in self.splits[split]]
        examples, _ = self.examples(tokenizer, split)
        probabilities = label_probabilities(model, examples, progress)
        predictions = [self.labels[index] for index in probabilities.argmax(1)]
        target_numbers = [self.labels.index(label) for label in targets]
        target_probabilities = probabilities[np.arange(len(targets)), target_numbers]
        scores = score_labels(targets, predictions)
        loss = float(-np.log(np.maximum(target_probabilities, 1e-12)).mean())
        rows = [asdict(label_scores) for label_scores in scores.by_label]
        return TaskScores({**scores.headline(), "loss": loss}, len(targets), rows)


def label_probabilities(
    model: nn.Module, examples: Sequence[Example], progress: PhaseProgress | None = None
) -> np.ndarray:
    """The probability of each label for each example: (examples, labels)."""
    by_number: dict[int, np.ndarray] = {}
    for batch, logits in batched_outputs(model, examples, progress=progress):
        by_number.update(zip(batch.sentences, logits.softmax(-1).cpu().numpy(), strict=True))
    return np.stack([by_number[example.number] for example in examples])


@dataclass(frozen=True)
class LabelPrediction:
    """The most probable label, and the probability of every label, the largest first."""

    label: str
    probability: float
    probabilities: dict[str, float]


def label_prediction(labels: Sequence[str], probabilities: np.ndarray) -> LabelPrediction:
    """The prediction from the probabilities of one example, (labels,)."""
    order = np.argsort(-probabilities, kind="stable")
    ranked = {labels[index]: float(probabilities[index]) for index in order}
    return LabelPrediction(labels[order[0]], float(probabilities[order[0]]), ranked)
