"""What every task of a BERT or a GPT shares: the run it starts from, vocabulary, examples, measuring."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.config.data import Files
from regard.config.models import NgramConfig
from regard.data.examples import Example, Source, TextBatch, TextBatches, all_batches
from regard.data.lines import CorpusError
from regard.engine import run
from regard.errors import RecipeError
from regard.nn import kept_share
from regard.nn.build import Head, build_reader
from regard.tasks import training
from regard.tasks.classification.config import ClassificationRecipe
from regard.tasks.encoder.reduction import SAMPLE, learns, settled_by_worth, token_counts, with_worth
from regard.tasks.encoder.run_folder import (
    LABELS,
    load_tokenizer,
    make_tokenizer,
    read_labels,
    reduction_of,
    start_from,
    started,
    write_labels,
)
from regard.tasks.language_modeling.config import LanguageModelingRecipe
from regard.tasks.masked_lm.config import MaskedLmRecipe
from regard.tasks.metrics_log import MetricsLogger, ProgressListener, read_metrics
from regard.tasks.model_card import text_card
from regard.tasks.question_answering.config import QuestionAnsweringRecipe
from regard.tasks.results import ResultTable, Summary
from regard.tasks.run_folder import RunFolder
from regard.tasks.tagging.config import TaggingRecipe
from regard.tasks.training import count_parameters
from regard.tasks.translation.vocabulary import JOINT
from regard.training.distributed import World
from regard.training.objectives import HeadObjective
from regard.training.state import Scores, Training
from regard.viz.curves import draw_training
from regard.viz.figure import save as save_picture

TrainedRecipe = (
    MaskedLmRecipe | ClassificationRecipe | TaggingRecipe | QuestionAnsweringRecipe | LanguageModelingRecipe
)
Item = TypeVar("Item")
AnyRecipe = TypeVar(
    "AnyRecipe",
    MaskedLmRecipe,
    ClassificationRecipe,
    TaggingRecipe,
    QuestionAnsweringRecipe,
    LanguageModelingRecipe,
)
MakeObjective = Callable[[nn.Module, float, torch.dtype], HeadObjective]
"""The loss from a model, the smoothing and the precision."""


@dataclass(frozen=True)
class TaskScores:
    """A model measured on examples."""

    scores: Scores
    examples: int
    rows: list[dict[str, Any]]
    """Label by label, where there are labels."""

    def as_json(self) -> dict[str, object]:
        return asdict(self)

    def summary(self, note: str = "examples") -> Summary:
        """The scores in one line, and label by label where there are labels."""
        scores = "   ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in self.scores.items())
        line = f"{scores}   ({self.examples:,} {note})"
        if not self.rows:
            return Summary((line,))
        rows = [
            tuple(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row.values())
            for row in self.rows
        ]
        return Summary((line,), ResultTable(tuple(self.rows[0]), rows))


@dataclass(frozen=True)
class TaskRun:
    """What `regard train` made of a recipe for a BERT, a GPT or a Vision Transformer, or counts of tokens."""

    folder: Path
    task: str
    on: str
    """What it was measured on: test or validation."""
    measured: TaskScores
    minutes: float
    steps: int
    parameters: int

    @staticmethod
    def of(
        folder: RunFolder, task: str, on: str, measured: TaskScores, training: Training, model: nn.Module
    ) -> "TaskRun":
        """A training that has ended."""
        minutes = training.seconds / 60
        return TaskRun(folder.path, task, on, measured, minutes, training.step, count_parameters(model))

    def as_json(self) -> dict[str, object]:
        return {"run": str(self.folder), **asdict(self.measured), **self._rest()}

    def summary(self) -> Summary:
        measured = self.measured.summary(
            f"{self.on} examples, {self.steps:,} steps, {self.minutes:.1f} minutes"
        )
        return replace(measured, last_lines=(f"run:     {self.folder}",))

    def _rest(self) -> dict[str, object]:
        return {
            "task": self.task,
            "on": self.on,
            "minutes": self.minutes,
            "steps": self.steps,
            "parameters": self.parameters,
        }


class Work(Protocol):
    """What one task does differently."""

    labels: list[str]
    """Classes or tags, once they are known."""
    splits: dict[str, Any]
    """What was read for training, validation and test."""

    @property
    def head(self) -> Head: ...

    @property
    def objective(self) -> MakeObjective: ...

    def open(self, split: str, path: Path) -> None:
        """Read a file as a split; labels are those known, or else those found in it."""

    def key(self, item: Any) -> str:
        """What must not be in two splits at once."""

    def tell(self) -> Iterator[str]:
        """What was read, in sentences."""

    def texts(self) -> Iterable[str]:
        """What a vocabulary may be learned from."""

    def encode(self, tokenizer: Any, tell: Callable[[str], object]) -> Source:
        """The training examples; what became of long ones is told."""

    def measure(self, model: nn.Module, tokenizer: Any, split: str) -> TaskScores:
        """Scores on the validation or test examples; `loss` is among them."""


class TextTask:
    """A work as the task of a training."""

    def __init__(self, recipe: TrainedRecipe, work: Work) -> None:
        assert not isinstance(recipe.model, NgramConfig)
        self.recipe, self.model, self.work = recipe, recipe.model, work
        self.width = self.model.width
        self.settings = settled_by_worth(recipe.train, reduction_of(recipe))
        self.tokenizer: Any  # as the model has it
        self.source: Source

    def prepare(self, folder: RunFolder, listener: ProgressListener, world: World) -> nn.Module:
        if (folder.path / LABELS).exists():
            self.work.labels = read_labels(folder.path)
        read_splits(self.work, self.recipe.data)
        for sentence in self.work.tell():
            listener.log(sentence)
        if world.first:
            folder.write_recipe(self.recipe)
            self.tokenizer = make_tokenizer(
                self.model, self.recipe.tokenizer, self.work.texts, folder, self.recipe.task
            )
            self.tokenizer.save(folder.path / JOINT)
            write_labels(folder, self.work.labels)
            world.wait()
        else:
            self.tokenizer = load_tokenizer(folder.path, self.model, self.recipe.task)
        listener.log(f"vocabulary: {self.tokenizer.size:,} pieces")
        self.source = self.work.encode(self.tokenizer, listener.log)
        model = build_reader(
            self.model,
            self.work.head,
            self.tokenizer.size,
            self.tokenizer.padding,
            len(self.work.labels),
            reduction_of(self.recipe),
        )
        if self.model.start:
            listener.log(start_from(Path(self.model.start), model))
        return model

    def batches(self, world: World) -> TextBatches:
        return TextBatches(
            self.source,
            tokens=self.settings.batch_tokens,
            sentences=self.settings.batch_sentences,
            seed=self.settings.seed,
            share=(world.rank, world.size),
        )

    def objective(self, model: nn.Module, precision: torch.dtype) -> HeadObjective:
        return self.work.objective(model, self.recipe.train.smoothing, precision)

    def validation(self, logger: MetricsLogger) -> Callable[[nn.Module, int], Scores]:
        return lambda model, step: self.worth(model, self.work.measure(model, self.tokenizer, "valid").scores)

    def worth(self, model: nn.Module, scores: Scores) -> Scores:
        """The scores, and where thresholds are learned what they are worth with the tokens that are kept."""
        reduce = reduction_of(self.recipe)
        if reduce is None or not learns(reduce):
            return scores
        some = self.source.load(np.arange(min(SAMPLE, len(self.source))), np.random.default_rng(0))
        bert: Any = model.bert
        batches = all_batches(some, self.settings.batch_tokens)
        kept = kept_share(token_counts(bert, batches, first_only=True))
        return with_worth(scores, self.recipe.train.best_by, kept, reduce)

    def finish(self, folder: RunFolder, model: nn.Module, training: Training) -> TaskRun:
        split = "test" if "test" in self.work.splits else "valid"
        measured = self.work.measure(model, self.tokenizer, split)
        on = "test" if split == "test" else "validation"
        result = TaskRun.of(folder, self.recipe.task, on, measured, training, model)
        rows = read_metrics(folder.path / "metrics.jsonl")
        scores = [name for name in ("accuracy", "next_accuracy") if "next_accuracy" in measured.scores]
        picture = draw_training(rows, *(scores or [next(iter(measured.scores))]))
        save_picture(picture, folder.path / "curves")
        folder.write("README.md", self.card(result, training.engine))
        folder.write_config(self.recipe)
        return result

    def card(self, result: TaskRun, engine: str) -> str:
        data = self.recipe.data
        facts = {
            "parameters": result.parameters,
            "engine": engine,
            "training": f"{result.steps:,} steps, {result.minutes:.1f} minutes, seed {self.settings.seed}",
            "measured on": f"{result.measured.examples:,} {result.on} examples",
        }
        files = [name for name in (data.train, data.valid, data.test) if name]
        return text_card(
            self.recipe.task, files, str(self.recipe.model), facts, result.measured.scores, result.measured.rows
        )


def train(
    recipe: AnyRecipe,
    make: Callable[[AnyRecipe], Work],
    out: Path,
    listener: ProgressListener | None,
    *,
    resume: bool,
) -> TaskRun | None:
    """Train a recipe into a folder; `make` gives the work of its task."""
    assert not isinstance(recipe.model, NgramConfig)
    recipe = replace(recipe, model=started(recipe.model))  # type: ignore[arg-type]  # the same kind of model
    return training.train(TextTask(recipe, make(recipe)), out, listener, resume=resume)


def file_of(data: Files, split: str) -> Path | None:
    """The file of a split; a training needs one for `train`."""
    name: str | None = getattr(data, split)
    if name is None and split == "train":
        raise RecipeError("data.train: this key is missing; it is the file with the training examples")
    if name is None:
        return None
    if data.path is None and not any(Path(written).exists() for written in (name, f"{name}.gz")):
        raise RecipeError(f"data.{split}: there is no file {name}; data.path names its folder")
    return Path(data.path or "") / name


def read_splits(work: Work, data: Files) -> None:
    """Training, validation and test; validation is held out where it has no file of its own."""
    for split in ("train", "valid", "test"):
        path = file_of(data, split)
        if path is not None:
            work.open(split, path)
    if "valid" not in work.splits:
        where = file_of(data, "train")
        assert where is not None
        work.splits["train"], work.splits["valid"] = held_out(
            work.splits["train"], work.key, data.held_out, where
        )


def held_out(
    items: Sequence[Item], key: Callable[[Item], str], share: float, path: Path
) -> tuple[list[Item], list[Item]]:
    """Training and validation: items of equal key go the same way, so nothing leaks."""
    kept: list[Item] = []
    out: list[Item] = []
    for item in items:
        (out if bucket(key(item)) < share else kept).append(item)
    if not kept or not out:
        raise CorpusError(
            f"{path}: too few examples to hold some out for validation; give a file (data.valid=...)"
        )
    return kept, out


def bucket(key: str) -> float:
    """Where a key falls between 0 and 1, always the same."""
    return zlib.crc32(key.encode("utf-8", "replace")) / 2**32


def asked(
    model: nn.Module, examples: Sequence[Example], tokens: int = 8192
) -> Iterator[tuple[TextBatch, Tensor]]:
    """The results of a model for each batch of examples, shortest first; `sentences` says which they are."""
    for batch in batches_for(model, examples, tokens):
        with torch.no_grad():
            yield batch, run(model, batch.ids, batch.segments).float()


def batches_for(model: nn.Module, examples: Sequence[Example], tokens: int = 8192) -> Iterator[TextBatch]:
    """Every example once, shortest first, on the model's device."""
    device = next(model.parameters()).device
    return (batch.to(device) for batch in all_batches(examples, tokens))
