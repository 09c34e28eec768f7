"""Labels for images: from a folder of them to a Vision Transformer that labels others."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.config.models import VitConfig
from regard.data.image_batches import ImageBatches, as_numbers
from regard.data.images import Images, Part, balance, check_labels, labels_of, open_images
from regard.engine import run
from regard.errors import RecipeError, RegardError
from regard.metrics import score_labels
from regard.nn import kept_share
from regard.nn.build import build_vit
from regard.nn.vit import VitClassifier
from regard.tasks import training
from regard.tasks.encoder.reduction import SAMPLE, learns, settled_by_worth, with_worth
from regard.tasks.encoder.run_folder import LABELS, read_labels, write_labels
from regard.tasks.encoder.training import TaskRun, TaskScores, bucket
from regard.tasks.image_classification.config import ImageClassificationRecipe
from regard.tasks.metrics_log import MetricsLogger, ProgressListener, read_metrics
from regard.tasks.model_card import text_card
from regard.tasks.run_folder import RunFolder
from regard.training.devices import choose_device
from regard.training.distributed import World
from regard.training.objectives import ImageObjective
from regard.training.state import Scores, Training
from regard.viz.charts import draw_training
from regard.viz.figure import save as save_picture

BUDGET = 16384
"""Tokens that are computed together where nothing is learned."""


def train(
    recipe: ImageClassificationRecipe,
    out: Path,
    listener: ProgressListener | None = None,
    *,
    resume: bool = False,
) -> TaskRun | None:
    """Train into the folder `out`, and measure on the test images or on the validation images."""
    if recipe.data.path is None:
        raise RecipeError("data.path: this key is missing; it is the folder with the images")
    folder = Path(recipe.data.path)
    model = started(recipe.model)
    splits = open_images(folder, model)
    model = fitted(model, splits["train"])
    return training.train(VisionTask(replace(recipe, model=model), splits), out, listener, resume=resume)


class VisionTask:
    """A vision recipe as the task of a training."""

    def __init__(self, recipe: ImageClassificationRecipe, splits: dict[str, Images]) -> None:
        self.recipe, self.width = recipe, recipe.model.d_model
        self.settings = settled_by_worth(recipe.train, recipe.reduce)
        self.path = Path(recipe.data.path or "")
        self.splits = splits
        self.labels = labels_of(splits["train"], self.path)
        for images in splits.values():
            check_labels(images, self.labels, self.path)
        if "valid" not in splits:
            splits["train"], splits["valid"] = held_out(splits["train"], recipe.data.held_out, self.path)

    def prepare(self, folder: RunFolder, listener: ProgressListener, world: World) -> nn.Module:
        if (folder.path / LABELS).exists():
            self.labels = read_labels(folder.path)
        told = ", ".join(f"{len(images.labels):,} for {split}" for split, images in self.splits.items())
        listener.log(f"images: {told}")
        listener.log(f"labels: {balance(self.splits['train'])}")
        if world.first:
            folder.write_recipe(self.recipe)
            write_labels(folder, self.labels)
            world.wait()
        model = build_vit(self.recipe.model, len(self.labels), self.recipe.reduce)
        if self.recipe.model.start:
            listener.log(start_from(Path(self.recipe.model.start), model))
        return model

    def batches(self, world: World) -> ImageBatches:
        tokens = self.recipe.model.tokens
        return ImageBatches(
            self.splits["train"],
            numbers_of(self.splits["train"], self.labels),
            tokens,
            self.settings.batch_sentences or max(1, self.settings.batch_tokens // tokens),
            self.recipe.data,
            seed=self.settings.seed,
            share=(world.rank, world.size),
        )

    def objective(self, model: nn.Module, precision: torch.dtype) -> ImageObjective:
        return ImageObjective(model, self.recipe.train.smoothing, precision)

    def validation(self, logger: MetricsLogger) -> Callable[[nn.Module, int], Scores]:
        return lambda model, step: self.worth(model, measure(model, self.splits["valid"], self.labels).scores)

    def worth(self, model: nn.Module, scores: Scores) -> Scores:
        """The scores, and where thresholds are learned what they are worth with the tokens that are kept."""
        if not learns(self.recipe.reduce):
            return scores
        valid = self.splits["valid"]
        pixels = as_numbers(valid.load(range(min(SAMPLE, len(valid.labels)))))
        vit: Any = model.vit
        with torch.no_grad():
            kept = kept_share(vit.reduced(pixels.to(vit.mean.device), vit.reduction).counts)
        return with_worth(scores, self.recipe.train.best_by, kept, self.recipe.reduce)

    def finish(self, folder: RunFolder, model: nn.Module, training: Training) -> TaskRun:
        on = "test" if "test" in self.splits else "validation"
        measured = measure(model, self.splits["test" if on == "test" else "valid"], self.labels)
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


def started(model: VitConfig) -> VitConfig:
    """The model section with the sizes of the run to start from."""
    if model.start is None:
        return model
    theirs = open_vit(Path(model.start))[1].model
    return replace(theirs, start=model.start, dropout=model.dropout, attention_dropout=model.attention_dropout)


def fitted(model: VitConfig, images: Images) -> VitConfig:
    """The model section with the size of the images, where it says nothing of it."""
    try:
        return replace(
            model,
            height=model.height or images.height,
            width=model.width or images.width,
            channels=model.channels or images.channels,
        )
    except ValueError as impossible:
        raise RecipeError(f"model.{impossible}") from None


def open_vit(path: Path) -> tuple[RunFolder, ImageClassificationRecipe]:
    """A finished run that holds a Vision Transformer."""
    folder = RunFolder.open(path)
    recipe = folder.read_recipe()
    if not isinstance(recipe, ImageClassificationRecipe):
        raise RegardError(f"{path} holds a model for {recipe.task}, not one for images")
    return folder, recipe


def start_from(path: Path, model: nn.Module) -> str:
    """Fill a model with what a run has of it; say what begins fresh."""
    saved = open_vit(path)[0].weights()
    parameters = dict(model.named_parameters())
    used = {
        name: each
        for name, each in saved.items()
        if name in parameters and parameters[name].shape == each.shape
    }
    with torch.no_grad():
        for name, each in used.items():
            parameters[name].copy_(each)
    fresh = sorted({name.rsplit(".", 1)[0] for name in parameters if name not in used})
    return f"weights: from {path}" + (f"; fresh: {', '.join(fresh)}" if fresh else "")


def held_out(images: Images, share: float, path: Path) -> tuple[Images, Images]:
    """Training and validation, by chance that is always the same."""
    place = np.array([bucket(f"image {number}") for number in range(len(images.labels))])
    kept, out = (np.nonzero(each)[0] for each in (place >= share, place < share))
    if not len(kept) or not len(out):
        raise RegardError(
            f"{path}: too few images to hold some out for validation; give more, or a folder valid"
        )
    return Part(images, kept), Part(images, out)


def numbers_of(images: Images, labels: list[str]) -> np.ndarray:
    """The number of each image's label."""
    number = {label: place for place, label in enumerate(labels)}
    return np.array([number[label] for label in images.labels], np.int64)


def probabilities(model: nn.Module, images: Images) -> np.ndarray:
    """The share of each label for each image: (images, labels)."""
    assert isinstance(model, VitClassifier)
    place = next(model.parameters()).device
    count = max(1, BUDGET // model.vit.config.tokens)
    found = []
    for first in range(0, len(images.labels), count):
        some = images.load(range(first, min(first + count, len(images.labels))))
        with torch.no_grad():
            found.append(run(model, as_numbers(some).to(place)).float().softmax(-1).cpu().numpy())
    return np.concatenate(found)


def measure(model: nn.Module, images: Images, labels: list[str]) -> TaskScores:
    """Accuracy, macro-F1 and loss, and the scores of each label."""
    shares, gold = probabilities(model, images), numbers_of(images, labels)
    right = shares[np.arange(len(gold)), gold]
    scores = score_labels(images.labels, [labels[place] for place in shares.argmax(1)])
    loss = float(-np.log(np.maximum(right, 1e-12)).mean())
    return TaskScores({**scores.numbers(), "loss": loss}, len(gold), [asdict(each) for each in scores.by_label])


def fresh_vit(folder: RunFolder, recipe: ImageClassificationRecipe) -> tuple[VitClassifier, list[str]]:
    """The model of a run with its weights, and its labels; no memory is taken before the shapes agree."""
    labels = read_labels(folder.path)
    with torch.device("meta"):
        folder.check_weights(build_vit(recipe.model, len(labels), recipe.reduce))
    model = build_vit(recipe.model, len(labels), recipe.reduce)
    folder.load_weights(model)
    return model.to(choose_device()).eval(), labels
