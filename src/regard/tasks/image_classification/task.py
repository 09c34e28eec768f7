"""Training of a Vision Transformer on labelled images."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.config.models import VitConfig
from regard.data.image_batches import ImageBatches, pixels_to_float
from regard.data.images import (
    Images,
    ImageSubset,
    check_labels,
    distinct_labels,
    label_distribution,
    open_images,
)
from regard.engine import run
from regard.errors import RecipeError, RegardError
from regard.metrics import score_labels
from regard.nn import kept_share
from regard.nn.build import build_vit
from regard.nn.vit import VitClassifier
from regard.tasks import training
from regard.tasks.encoder.reduction import KEPT_SHARE_EXAMPLES, add_worth, learns_thresholds, select_by_worth
from regard.tasks.encoder.run_folder import LABELS, read_labels, write_labels
from regard.tasks.encoder.training import hash_fraction
from regard.tasks.image_classification.config import ImageClassificationRecipe
from regard.tasks.metrics_log import MetricsLogger, PhaseProgress, ProgressListener, read_metrics
from regard.tasks.model_card import text_card
from regard.tasks.results import TaskRun, TaskScores
from regard.tasks.run_folder import RunFolder
from regard.training.devices import choose_device
from regard.training.distributed import World
from regard.training.objectives import ImageObjective
from regard.training.state import Scores, Training
from regard.viz.charts import draw_training
from regard.viz.figure import save as save_picture

EVALUATION_TOKENS = 16384
"""Tokens per batch in evaluation."""


def train(
    recipe: ImageClassificationRecipe,
    out: Path,
    listener: ProgressListener | None = None,
    *,
    resume: bool = False,
) -> TaskRun | None:
    """Train into the folder `out`, and evaluate on the test images or the validation images."""
    if recipe.data.path is None:
        raise RecipeError("data.path: this key is missing; set it to the folder with the images")
    folder = Path(recipe.data.path)
    model = with_start_sizes(recipe.model)
    with training.reading_phase(listener):
        splits = open_images(folder, model)
    model = with_image_size(model, splits["train"])
    return training.train(
        ImageClassificationTask(replace(recipe, model=model), splits), out, listener, resume=resume
    )


class ImageClassificationTask:
    """Images, labels, objective, validation and result of an image classification recipe."""

    def __init__(self, recipe: ImageClassificationRecipe, splits: dict[str, Images]) -> None:
        self.recipe, self.width = recipe, recipe.model.d_model
        self.settings = select_by_worth(recipe.train, recipe.reduce)
        self.path = Path(recipe.data.path or "")
        self.splits = splits
        self.labels = distinct_labels(splits["train"], self.path)
        for images in splits.values():
            check_labels(images, self.labels, self.path)
        if "valid" not in splits:
            splits["train"], splits["valid"] = held_out(splits["train"], recipe.data.held_out, self.path)

    def prepare(self, folder: RunFolder, listener: ProgressListener, world: World) -> nn.Module:
        if (folder.path / LABELS).exists():
            self.labels = read_labels(folder.path)
        sizes = ", ".join(f"{len(images.labels):,} for {split}" for split, images in self.splits.items())
        listener.log(f"images: {sizes}")
        listener.log(f"labels: {label_distribution(self.splits['train'])}")
        if world.is_first:
            folder.write_recipe(self.recipe)
            write_labels(folder, self.labels)
            world.barrier()
        model = build_vit(self.recipe.model, len(self.labels), self.recipe.reduce)
        if self.recipe.model.start:
            listener.log(start_from(Path(self.recipe.model.start), model))
        return model

    def batches(self, world: World) -> ImageBatches:
        tokens = self.recipe.model.tokens
        return ImageBatches(
            self.splits["train"],
            label_indices(self.splits["train"], self.labels),
            tokens,
            self.settings.batch_sentences or max(1, self.settings.batch_tokens // tokens),
            self.recipe.data,
            seed=self.settings.seed,
            shard=(world.rank, world.size),
        )

    def objective(self, model: nn.Module, precision: torch.dtype) -> ImageObjective:
        return ImageObjective(model, self.recipe.train.smoothing, precision)

    def validation(self, logger: MetricsLogger) -> Callable[[nn.Module, int], Scores]:
        def validate(model: nn.Module, step: int) -> Scores:
            with logger.listener.phase("valid", announce=False) as progress:
                measured = measure(model, self.splits["valid"], self.labels, progress)
            return self.worth(model, measured.scores)

        return validate

    def worth(self, model: nn.Module, scores: Scores) -> Scores:
        """The scores; where pruning thresholds are learned, also weighed against the share of kept tokens."""
        if not learns_thresholds(self.recipe.reduce):
            return scores
        valid = self.splits["valid"]
        pixels = pixels_to_float(valid.load(range(min(KEPT_SHARE_EXAMPLES, len(valid.labels)))))
        vit: Any = model.vit
        with torch.no_grad():
            kept = kept_share(vit.reduced(pixels.to(vit.mean.device), vit.reduction).counts)
        return add_worth(scores, self.recipe.train.best_by, kept, self.recipe.reduce)

    def finish(
        self, folder: RunFolder, model: nn.Module, training: Training, listener: ProgressListener
    ) -> TaskRun:
        on = "test" if "test" in self.splits else "validation"
        images = self.splits["test" if on == "test" else "valid"]
        with listener.phase("test", "" if on == "test" else "on the validation data") as progress:
            measured = measure(model, images, self.labels, progress)
        result = TaskRun.of(folder, self.recipe.task, on, measured, training, model)
        picture = draw_training(read_metrics(folder.path / "metrics.jsonl"), "accuracy")
        save_picture(picture, folder.path / "curves")
        folder.write("README.md", self.card(result, training.engine))
        folder.write_config(self.recipe)
        return result

    def card(self, result: TaskRun, engine: str) -> str:
        facts = {
            "parameters": result.parameters,
            "engine": engine,
            "training": f"{result.steps:,} steps, {result.minutes:.1f} minutes, seed {self.settings.seed}",
            "measured on": f"{result.measured.examples:,} {result.on} images",
        }
        measured = result.measured
        return text_card(
            self.recipe.task, [self.path.name], str(self.recipe.model), facts, measured.scores, measured.rows
        )


def with_start_sizes(model: VitConfig) -> VitConfig:
    """The model settings with the sizes of the run to start from."""
    if model.start is None:
        return model
    start = open_vit(Path(model.start))[1].model
    return replace(start, start=model.start, dropout=model.dropout, attention_dropout=model.attention_dropout)


def with_image_size(model: VitConfig, images: Images) -> VitConfig:
    """The model settings, with the size of the images where they have none."""
    try:
        return replace(
            model,
            height=model.height or images.height,
            width=model.width or images.width,
            channels=model.channels or images.channels,
        )
    except ValueError as error:
        raise RecipeError(f"model.{error}") from None


def open_vit(path: Path) -> tuple[RunFolder, ImageClassificationRecipe]:
    """The folder and recipe of a finished Vision Transformer run."""
    folder = RunFolder.open(path)
    recipe = folder.read_recipe()
    if not isinstance(recipe, ImageClassificationRecipe):
        raise RegardError(f"{path} holds a model for {recipe.task}; a run of image-classification is needed")
    return folder, recipe


def start_from(path: Path, model: nn.Module) -> str:
    """Copy the weights that fit from a run; returns a log line that names the newly initialized ones."""
    saved = open_vit(path)[0].weights()
    parameters = dict(model.named_parameters())
    used = {
        name: weight
        for name, weight in saved.items()
        if name in parameters and parameters[name].shape == weight.shape
    }
    with torch.no_grad():
        for name, weight in used.items():
            parameters[name].copy_(weight)
    new = sorted({name.rsplit(".", 1)[0] for name in parameters if name not in used})
    return f"weights: from {path}" + (f"; newly initialized: {', '.join(new)}" if new else "")


def held_out(images: Images, share: float, path: Path) -> tuple[Images, Images]:
    """Training and validation images, split by a hash of the image number."""
    position = np.array([hash_fraction(f"image {number}") for number in range(len(images.labels))])
    train, valid = np.nonzero(position >= share)[0], np.nonzero(position < share)[0]
    if not len(train) or not len(valid):
        raise RegardError(
            f"{path}: too few images to hold some out for validation; use more images, or a folder named valid"
        )
    return ImageSubset(images, train), ImageSubset(images, valid)


def label_indices(images: Images, labels: list[str]) -> np.ndarray:
    """The index of each image's label."""
    index = {label: number for number, label in enumerate(labels)}
    return np.array([index[label] for label in images.labels], np.int64)


def probabilities(model: nn.Module, images: Images, progress: PhaseProgress | None = None) -> np.ndarray:
    """The probability of each label for each image: (images, labels)."""
    assert isinstance(model, VitClassifier)
    device = next(model.parameters()).device
    count = max(1, EVALUATION_TOKENS // model.vit.config.tokens)
    batches = []
    progress = progress or PhaseProgress()
    progress.expect(len(images.labels), "images")
    for first in range(0, len(images.labels), count):
        batch = images.load(range(first, min(first + count, len(images.labels))))
        with torch.no_grad():
            batches.append(run(model, pixels_to_float(batch).to(device)).float().softmax(-1).cpu().numpy())
        progress.add(len(batch))
    return np.concatenate(batches)


def measure(
    model: nn.Module, images: Images, labels: list[str], progress: PhaseProgress | None = None
) -> TaskScores:
    """Accuracy, macro-F1 and loss, and the scores of each label."""
    distributions, targets = probabilities(model, images, progress), label_indices(images, labels)
    target_probability = distributions[np.arange(len(targets)), targets]
    scores = score_labels(images.labels, [labels[index] for index in distributions.argmax(1)])
    loss = float(-np.log(np.maximum(target_probability, 1e-12)).mean())
    return TaskScores(
        {**scores.headline(), "loss": loss}, len(targets), [asdict(score) for score in scores.by_label]
    )


def load_vit(folder: RunFolder, recipe: ImageClassificationRecipe) -> tuple[VitClassifier, list[str]]:
    """The model and the labels of a run; shapes are checked before memory is allocated."""
    labels = read_labels(folder.path)
    with torch.device("meta"):
        folder.check_weights(build_vit(recipe.model, len(labels), recipe.reduce))
    model = build_vit(recipe.model, len(labels), recipe.reduce)
    folder.load_weights(model)
    return model.to(choose_device()).eval(), labels
