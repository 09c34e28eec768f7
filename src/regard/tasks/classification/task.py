"""Labels for texts and pairs of texts: sentiment, inference, and whatever else a label can say."""

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
from regard.tasks.encoder import training as texts
from regard.tasks.encoder.training import MakeObjective, TaskRun, TaskScores, asked
from regard.tasks.metrics_log import ProgressListener
from regard.tokenization import BertTokenizer, MarkedTokenizer
from regard.training.objectives import ClassObjective, GptClassObjective


def train(
    recipe: ClassificationRecipe, out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> TaskRun | None:
    """Train into the folder `out`, and measure on the test file or on the validation examples."""
    return texts.train(recipe, Classification, out, listener, resume=resume)


class Classification:
    """The work of a classification recipe."""

    head: Head = "classes"

    def __init__(self, recipe: ClassificationRecipe) -> None:
        self.data = recipe.data
        self.objective: MakeObjective = ClassObjective
        if isinstance(recipe.model, GptConfig):
            self.objective = partial(GptClassObjective, language=recipe.train.language_loss)
        self.max_length = min(recipe.data.max_length, recipe.model.max_length)
        self.labels: list[str] = []
        self.splits: dict[str, list[LabelledText]] = {}

    def open(self, split: str, path: Path) -> None:
        self.splits[split] = self.read_file(path)
        self.labels = self.labels or distinct_labels(self.splits[split], path)
        check_labels(self.splits[split], self.labels, path)

    def key(self, item: LabelledText) -> str:
        return item.text

    def tell(self) -> Iterator[str]:
        told = ", ".join(f"{len(examples):,} for {split}" for split, examples in self.splits.items())
        yield f"examples: {told}"
        yield f"labels: {label_distribution(self.splits['train'])}"

    def read_file(self, path: Path) -> list[LabelledText]:
        data = self.data
        return list(read_labelled(path, LabelledColumns(data.text, data.pair, data.label), pairs=data.pairs))

    def texts(self) -> Iterable[str]:
        for each in self.splits["train"]:
            yield each.text
            if each.pair is not None:
                yield each.pair

    def encode(
        self, tokenizer: BertTokenizer | MarkedTokenizer, tell: Callable[[str], object]
    ) -> FixedExamples:
        examples, cut = self.examples(tokenizer, "train")
        if cut:
            tell(f"{cut:,} of {len(examples):,} examples are longer than {self.max_length} tokens, and cut")
        return FixedExamples(examples)

    def examples(self, tokenizer: BertTokenizer | MarkedTokenizer, split: str) -> tuple[list[Example], int]:
        examples = self.splits[split]
        numbers = [self.labels.index(each.label) for each in examples]
        return encode_texts(
            tokenizer,
            [each.text for each in examples],
            [each.pair for each in examples],
            self.max_length,
            numbers,
        )

    def measure(self, model: nn.Module, tokenizer: BertTokenizer | MarkedTokenizer, split: str) -> TaskScores:
        gold = [each.label for each in self.splits[split]]
        examples, _ = self.examples(tokenizer, split)
        shares = probabilities(model, examples)
        found = [self.labels[place] for place in shares.argmax(1)]
        right = shares[np.arange(len(gold)), [self.labels.index(label) for label in gold]]
        scores = score_labels(gold, found)
        loss = float(-np.log(np.maximum(right, 1e-12)).mean())
        rows = [asdict(each) for each in scores.by_label]
        return TaskScores({**scores.numbers(), "loss": loss}, len(gold), rows)


def encode_texts(
    tokenizer: BertTokenizer | MarkedTokenizer,
    first: Sequence[str],
    second: Sequence[str | None],
    max_length: int,
    labels: Sequence[int] = (),
) -> tuple[list[Example], int]:
    """[CLS] A [SEP], or [CLS] A [SEP] B [SEP], and how many were too long and lost the end of a side.

    For a GPT it is [START] A [EXTRACT] and [START] A [DELIM] B [EXTRACT]: as many symbols.
    """
    ones = tokenizer.encode_batch(first)
    others = tokenizer.encode_batch([each or "" for each in second])
    found, cut = [], 0
    for number, (one, other) in enumerate(zip(ones, others, strict=True)):
        pair = second[number] is not None
        room = max_length - (3 if pair else 2)
        cut += len(one) + len(other) > room
        one, other = shortened(one, other, room)
        ids = np.array(tokenizer.joined(one, other if pair else None), np.int64)
        label = (labels[number],) if labels else ()
        found.append(Example(number, ids, len(one) + 2 if pair else len(ids), label))
    return found, cut


def shortened(one: list[int], other: list[int], room: int) -> tuple[list[int], list[int]]:
    """Both within the room together; the longer one gives first."""
    over = len(one) + len(other) - room
    if over <= 0:
        return one, other
    half = room // 2
    if len(other) <= half:
        return one[: room - len(other)], other
    if len(one) <= room - half:
        return one, other[: room - len(one)]
    return one[: room - half], other[:half]


def probabilities(model: nn.Module, examples: Sequence[Example]) -> np.ndarray:
    """The share of each label for each example: (examples, labels)."""
    found: dict[int, np.ndarray] = {}
    for batch, scores in asked(model, examples):
        found.update(zip(batch.sentences, scores.softmax(-1).cpu().numpy(), strict=True))
    return np.stack([found[each.number] for each in examples])


@dataclass(frozen=True)
class LabelPrediction:
    """A text's label, and the share of every label, the largest first."""

    label: str
    probability: float
    probabilities: dict[str, float]


def judged(labels: Sequence[str], shares: np.ndarray) -> LabelPrediction:
    order = np.argsort(-shares, kind="stable")
    ranked = {labels[place]: float(shares[place]) for place in order}
    return LabelPrediction(labels[order[0]], float(shares[order[0]]), ranked)
