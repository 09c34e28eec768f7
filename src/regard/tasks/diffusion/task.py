"""Painting by prompt: from pictures with labels to a U-Net that paints what it is told."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard import tokenization
from regard.config.models import UnetConfig, VitConfig
from regard.data.diffusion import PaintBatches
from regard.data.images import Images, Part, labels_of, open_images
from regard.data.prompts import prompts_for, usual_prompt, vocabulary_texts
from regard.decoding.diffusion import DiffusionConfig, paint
from regard.errors import RecipeError, RegardError
from regard.nn import Packed
from regard.nn.unet import Unet
from regard.tasks import training
from regard.tasks.diffusion.config import DiffusionRecipe
from regard.tasks.encoder.training import TaskRun, TaskScores
from regard.tasks.metrics_log import MetricsLogger, ProgressListener, read_metrics
from regard.tasks.model_card import text_card
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.vocabulary import JOINT
from regard.tokenization import Tokenizer
from regard.training.denoising import NoiseObjective
from regard.training.distributed import World
from regard.training.state import Scores, Training
from regard.viz.charts import draw_training
from regard.viz.figure import save as save_picture
from regard.viz.generated_images import draw_grid

MEASURED = 1024
"""Test pictures that a finished model is measured on."""
TOGETHER = 128
"""Pictures that are measured at a time."""
SHOWN = 8
"""Pictures of each label in the run's own grid."""


def train(
    recipe: DiffusionRecipe, out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> TaskRun | None:
    """Train into the folder `out`, and measure on the test pictures, or on those held out."""
    if recipe.data.path is None:
        raise RecipeError("data.path: this key is missing; it is the folder with the pictures")
    return training.train(PaintTask(recipe), out, listener, resume=resume)


class PaintTask:
    """A painting recipe as the task of a training."""

    def __init__(self, recipe: DiffusionRecipe) -> None:
        self.recipe, self.settings, self.width = recipe, recipe.train, recipe.model.width
        self.path = Path(recipe.data.path or "")
        self.splits = open_splits(self.path, recipe)
        self.labels = labels_of(self.splits["train"], self.path)
        self.tokenizer: Tokenizer

    def prepare(self, folder: RunFolder, listener: ProgressListener, world: World) -> nn.Module:
        told = ", ".join(f"{len(images.labels):,} for {split}" for split, images in self.splits.items())
        listener.log(f"pictures: {told}; labels: {', '.join(self.labels)}")
        self.tokenizer = tokenization.train(
            "words", vocabulary_texts(self.labels), min_count=1, lower=True, normal="nfc"
        )
        listener.log(f"vocabulary: {self.tokenizer.size:,} words")
        if world.first:
            folder.write_recipe(self.recipe)
            self.tokenizer.save(folder.path / JOINT)
            world.wait()
        return build_unet(self.recipe.model, self.tokenizer)

    def batches(self, world: World) -> PaintBatches:
        by_pixels = self.settings.batch_tokens // self.recipe.model.side**2
        count = self.settings.batch_sentences or max(1, by_pixels)
        return self.cut("train", count, (world.rank, world.size))

    def cut(self, split: str, count: int, share: tuple[int, int] = (0, 1)) -> PaintBatches:
        """The pictures of a split in batches."""
        return PaintBatches(
            self.splits[split],
            self.splits[split].labels,
            {label: said(self.tokenizer, prompts_for(label)) for label in self.labels},
            [self.tokenizer.end],
            self.tokenizer.padding,
            count,
            silent=self.recipe.train.drop_prompt,
            seed=self.settings.seed,
            share=share,
        )

    def objective(self, model: nn.Module, precision: torch.dtype) -> NoiseObjective:
        assert isinstance(model, Unet)
        return NoiseObjective(model, self.recipe.train.most_signal, precision)

    def validation(self, logger: MetricsLogger) -> Callable[[nn.Module, int], Scores]:
        return lambda model, step: self.measure(model, "valid").scores

    def measure(self, model: nn.Module, split: str) -> TaskScores:
        """The loss, with the same noise in the same pictures each time."""
        objective = self.objective(model, torch.float32)
        total, pictures = 0.0, 0
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.settings.seed)
            for batch in self.cut(split, TOGETHER).once():
                total, pictures = total + float(objective(batch)), pictures + batch.rows
        return TaskScores({"loss": total / pictures}, pictures, [])

    def finish(self, folder: RunFolder, model: nn.Module, training: Training) -> TaskRun:
        on = "test" if "test" in self.splits else "validation"
        measured = self.measure(model, "test" if on == "test" else "valid")
        result = TaskRun.of(folder, self.recipe.task, on, measured, training, model)
        assert isinstance(model, Unet)
        save_picture(draw_training(read_metrics(folder.path / "metrics.jsonl"), "loss"), folder.path / "curves")
        shown = [usual_prompt(label) for label in self.labels[:10]]
        pictures = painted(model, self.tokenizer, shown, options_of(self.recipe), SHOWN, self.settings.seed)
        save_picture(draw_grid(shown, pictures), folder.path / "painted")
        folder.write("README.md", self.card(result, training.engine))
        folder.write_config(self.recipe)
        return result

    def card(self, result: TaskRun, engine: str) -> str:
        paint = self.recipe.paint
        facts = {
            "parameters": result.parameters,
            "prompts": f"{len(vocabulary_texts(self.labels))} of {self.tokenizer.size} words",
            "painting": f"{paint.sampler}, {paint.steps} steps, guidance {paint.guidance:g}",
            "engine": engine,
            "training": f"{result.steps:,} steps, {result.minutes:.1f} minutes, seed {self.settings.seed}",
            "measured on": f"{result.measured.examples:,} {result.on} pictures",
        }
        measured = result.measured
        card = text_card(
            self.recipe.task, [self.path.name], str(self.recipe.model), facts, measured.scores, measured.rows
        )
        return f"{card}\n![What it paints](painted.png)\n"


def open_splits(folder: Path, recipe: DiffusionRecipe) -> dict[str, Images]:
    """Pictures for training, validation and test, each of the model's size."""
    side = recipe.model.side
    found = open_images(folder, VitConfig(patch=1, height=side, width=side, channels=1))
    for images in found.values():
        if (images.height, images.width) != (side, side):
            raise RecipeError(
                f"model.side: the pictures of {folder} are {images.height} x {images.width} pixels, "
                f"not {side} x {side}"
            )
    every = len(found["train"].labels)
    if "valid" not in found:
        held_out = recipe.data.held_out
        if held_out >= every:
            raise RegardError(
                f"data.held_out: {folder} has {every:,} pictures; {held_out:,} cannot be held out"
            )
        order = np.random.default_rng(1).permutation(every)
        whole = found["train"]
        found["train"], found["valid"] = (
            Part(whole, np.sort(each)) for each in (order[held_out:], order[:held_out])
        )
    if "test" in found:
        found["test"] = Part(found["test"], np.arange(min(MEASURED, len(found["test"].labels))))
    return found


def said(tokenizer: Tokenizer, prompts: Sequence[str]) -> list[list[int]]:
    """Prompts as ids, each with its end."""
    return [[*ids, tokenizer.end] for ids in tokenizer.encode_batch(prompts)]


def build_unet(model: UnetConfig, tokenizer: Tokenizer) -> Unet:
    return Unet(model, tokenizer.size, tokenizer.padding)


def options_of(recipe: DiffusionRecipe) -> DiffusionConfig:
    """The recipe's way of painting."""
    return DiffusionConfig(recipe.paint.sampler, recipe.paint.steps, recipe.paint.guidance)


def painted(
    model: Unet,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    options: DiffusionConfig,
    each: int,
    seed: int,
    together: int = 32,
) -> np.ndarray:
    """So many pictures for each prompt, from 0 to 1: (prompts, each, side, side).

    Column by column the same noise to begin with, whatever the prompt: seed, seed + 1, ...
    """
    device = next(model.parameters()).device
    rows = [ids for ids in said(tokenizer, prompts) for _ in range(each)]
    seeds = [seed + number for _ in prompts for number in range(each)]
    nothing = torch.tensor([[tokenizer.end]], device=device)
    found = []
    for first in range(0, len(rows), together):
        some = Packed.from_rows(rows[first : first + together]).padded(tokenizer.padding).to(device)
        found.append(paint(model, some, nothing, options, seeds[first : first + together]).cpu())
    pixels = ((torch.cat(found) + 1) / 2).clamp(0, 1).squeeze(1)
    return pixels.view(len(prompts), each, *pixels.shape[1:]).numpy()
