"""Training of a BERT or a GPT: what its tasks share, from reading the data to measuring the best weights."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import nn

from regard.config.data import FilesDataConfig
from regard.config.models import NgramConfig
from regard.data.examples import Example, ExampleSource, TextBatches, all_batches
from regard.data.text_files import CorpusError
from regard.errors import RecipeError
from regard.nn import kept_share
from regard.nn.bert import Bert
from regard.nn.build import Head, build_text_model
from regard.tasks import training
from regard.tasks.classification.config import ClassificationRecipe
from regard.tasks.encoder.reduction import (
    KEPT_SHARE_EXAMPLES,
    add_worth,
    learns_thresholds,
    select_by_worth,
    token_counts,
)
from regard.tasks.encoder.run_folder import (
    LABELS,
    inherit_sizes,
    load_start_weights,
    load_tokenizer,
    make_tokenizer,
    read_labels,
    reduction_config,
    write_labels,
)
from regard.tasks.language_modeling.config import LanguageModelingRecipe
from regard.tasks.masked_lm.config import MaskedLmRecipe
from regard.tasks.metrics_log import MetricsLogger, PhaseProgress, ProgressListener, read_metrics
from regard.tasks.model_card import text_card
from regard.tasks.question_answering.config import QuestionAnsweringRecipe
from regard.tasks.results import TaskRun, TaskScores
from regard.tasks.run_folder import RunFolder
from regard.tasks.tagging.config import TaggingRecipe
from regard.tasks.translation.vocabulary import JOINT
from regard.training.distributed import World
from regard.training.objectives import HeadObjective
from regard.training.state import Scores, Training
from regard.viz.charts import draw_training
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
"""Makes the loss from a model, the label smoothing and the precision."""


class TextTask(Protocol):
    """What a task on texts defines: how it reads, encodes and measures its data, with which head and loss."""

    labels: list[str]
    """Classes or tags, once they are known."""
    splits: dict[str, Any]
    """The data read for training, validation and test."""

    @property
    def head(self) -> Head: ...

    @property
    def objective(self) -> MakeObjective: ...

    def read_split(self, split: str, path: Path) -> None:
        """Read a file as a split; its labels must be known ones, or become the known ones if there are none."""

    def split_key(self, item: Any) -> str:
        """Items with the same key go to the same split when validation data are held out."""

    def data_summary(self) -> Iterator[str]:
        """Log lines about the data."""

    def vocabulary_texts(self) -> Iterable[str]:
        """Training texts, from which a vocabulary is trained."""

    def encode(self, tokenizer: Any, log: Callable[[str], object]) -> ExampleSource:
        """The training examples; logs what was truncated or split."""

    def measure(
        self, model: nn.Module, tokenizer: Any, split: str, progress: PhaseProgress | None = None
    ) -> TaskScores:
        """Scores on the validation or test split; `loss` is among them."""


class TextTraining:
    """Training of a text task: a `TrainingTask`."""

    def __init__(self, recipe: TrainedRecipe, task: TextTask) -> None:
        assert not isinstance(recipe.model, NgramConfig)
        self.recipe, self.model, self.task = recipe, recipe.model, task
        self.width = self.model.width
        self.settings = select_by_worth(recipe.train, reduction_config(recipe))
        self.tokenizer: Any  # its type depends on the model
        self.source: ExampleSource

    def prepare(self, folder: RunFolder, listener: ProgressListener, world: World) -> nn.Module:
        if (folder.path / LABELS).exists():
            self.task.labels = read_labels(folder.path)
        with listener.phase("reading"):
            read_splits(self.task, self.recipe.data)
        for line in self.task.data_summary():
            listener.log(line)
        if world.is_first:
            folder.write_recipe(self.recipe)
            with listener.phase("vocabulary"):
                self.tokenizer = make_tokenizer(
                    self.model, self.recipe.tokenizer, self.task.vocabulary_texts, folder, self.recipe.task
                )
            self.tokenizer.save(folder.path / JOINT)
            write_labels(folder, self.task.labels)
            world.barrier()
        else:
            self.tokenizer = load_tokenizer(folder.path, self.model, self.recipe.task)
        listener.log(f"vocabulary: {self.tokenizer.size:,} pieces")
        with listener.phase("encoding"):
            self.source = self.task.encode(self.tokenizer, listener.log)
        model = build_text_model(
            self.model,
            self.task.head,
            self.tokenizer.size,
            self.tokenizer.padding,
            len(self.task.labels),
            reduction_config(self.recipe),
        )
        if self.model.start:
            listener.log(load_start_weights(Path(self.model.start), model))
        return model

    def batches(self, world: World) -> TextBatches:
        return TextBatches(
            self.source,
            tokens=self.settings.batch_tokens,
            sentences=self.settings.batch_sentences,
            seed=self.settings.seed,
            shard=(world.rank, world.size),
        )

    def objective(self, model: nn.Module, precision: torch.dtype) -> HeadObjective:
        return self.task.objective(model, self.recipe.train.smoothing, precision)

    def validation(self, logger: MetricsLogger) -> Callable[[nn.Module, int], Scores]:
        def validate(model: nn.Module, step: int) -> Scores:
            with logger.listener.phase("valid", announce=False) as progress:
                measured = self.task.measure(model, self.tokenizer, "valid", progress)
            return self.with_worth(model, measured.scores)

        return validate

    def with_worth(self, model: nn.Module, scores: Scores) -> Scores:
        """The scores; with the share of tokens kept and `worth` while thresholds are learned."""
        reduce = reduction_config(self.recipe)
        if reduce is None or not learns_thresholds(reduce):
            return scores
        numbers = np.arange(min(KEPT_SHARE_EXAMPLES, len(self.source)))
        examples: Sequence[Example] = self.source.load(numbers, np.random.default_rng(0))
        bert = model.bert
        assert isinstance(bert, Bert)
        batches = all_batches(examples, self.settings.batch_tokens)
        kept = kept_share(token_counts(bert, batches, first_only=True))
        return add_worth(scores, self.recipe.train.best_by, kept, reduce)

    def finish(
        self, folder: RunFolder, model: nn.Module, training: Training, listener: ProgressListener
    ) -> TaskRun:
        split = "test" if "test" in self.task.splits else "valid"
        with listener.phase("test", "" if split == "test" else "on the validation data") as progress:
            measured = self.task.measure(model, self.tokenizer, split, progress)
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
    make_task: Callable[[AnyRecipe], TextTask],
    out: Path,
    listener: ProgressListener | None,
    *,
    resume: bool,
) -> TaskRun | None:
    """Train a recipe into a folder.

    Args:
        recipe: The recipe.
        make_task: Makes the recipe's task.
        out: The run folder.
        listener: Receives the progress.
        resume: Continue from the checkpoint in `out`.
    """
    assert not isinstance(recipe.model, NgramConfig)
    recipe = replace(recipe, model=inherit_sizes(recipe.model))  # type: ignore[arg-type]  # the same kind of model
    return training.train(TextTraining(recipe, make_task(recipe)), out, listener, resume=resume)


def split_path(data: FilesDataConfig, split: str) -> Path | None:
    """The file of a split; None where the recipe has none, which is an error for `train`."""
    name = getattr(data, split)
    if name is None and split == "train":
        raise RecipeError("data.train: this key is missing; it is the file with the training examples")
    return None if name is None else Path(data.path or "") / name


def read_splits(task: TextTask, data: FilesDataConfig) -> None:
    """Read training, validation and test data; without a validation file, training examples are held out."""
    for split in ("train", "valid", "test"):
        path = split_path(data, split)
        if path is not None:
            task.read_split(split, path)
    if "valid" not in task.splits:
        train_path = split_path(data, "train")
        assert train_path is not None
        task.splits["train"], task.splits["valid"] = held_out(
            task.splits["train"], task.split_key, data.held_out, train_path
        )


def held_out(
    items: Sequence[Item], key: Callable[[Item], str], share: float, path: Path
) -> tuple[list[Item], list[Item]]:
    """Training and validation items; items with the same key go to the same side, so nothing leaks."""
    train: list[Item] = []
    valid: list[Item] = []
    for item in items:
        (valid if hash_fraction(key(item)) < share else train).append(item)
    if not train or not valid:
        raise CorpusError(
            f"{path}: too few examples to hold some out for validation; give a file (data.valid=...)"
        )
    return train, valid


def hash_fraction(key: str) -> float:
    """A hash of the key in [0, 1)."""
    return zlib.crc32(key.encode("utf-8", "replace")) / 2**32
