"""Training of a diffusion model: a U-Net that predicts noise, conditioned on prompts."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard import tokenization
from regard.config.models import UnetConfig, VitConfig
from regard.data.images import Images, ImageSubset, distinct_labels, open_images
from regard.data.prompted_images import PromptedImageBatches, prompts_for, usual_prompt, vocabulary_texts
from regard.decoding.diffusion import DiffusionConfig, sample_images
from regard.errors import RecipeError, RegardError
from regard.nn import Packed
from regard.nn.unet import Unet
from regard.tasks import training
from regard.tasks.diffusion.config import DiffusionRecipe
from regard.tasks.metrics_log import MetricsLogger, PhaseProgress, ProgressListener, read_metrics
from regard.tasks.model_card import text_card
from regard.tasks.results import TaskRun, TaskScores
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.vocabulary import JOINT
from regard.tokenization import Tokenizer
from regard.training.distributed import World
from regard.training.objectives import NoiseObjective
from regard.training.state import Scores, Training
from regard.viz.charts import draw_training
from regard.viz.figure import save as save_picture
from regard.viz.generated_images import draw_grid

TEST_IMAGES = 1024
"""Maximum number of test images that a finished model is evaluated on."""
EVALUATION_BATCH = 128
"""Images per batch in evaluation."""
SAMPLES_PER_PROMPT = 8
"""Images per prompt in the run's sample grid."""


def train(
    recipe: DiffusionRecipe, out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> TaskRun | None:
    """Train into the folder `out`, and evaluate on the test images, or on the held-out ones."""
    if recipe.data.path is None:
        raise RecipeError("data.path: this key is missing; set it to the folder with the images")
    with training.reading_phase(listener):
        task = DiffusionTask(recipe)
    return training.train(task, out, listener, resume=resume)


class DiffusionTask:
    """Images, prompts, objective, validation and result of a diffusion recipe."""

    def __init__(self, recipe: DiffusionRecipe) -> None:
        self.recipe, self.settings, self.width = recipe, recipe.train, recipe.model.width
        self.path = Path(recipe.data.path or "")
        self.splits = open_splits(self.path, recipe)
        self.labels = distinct_labels(self.splits["train"], self.path)
        self.tokenizer: Tokenizer

    def prepare(self, folder: RunFolder, listener: ProgressListener, world: World) -> nn.Module:
        sizes = ", ".join(f"{len(images.labels):,} for {split}" for split, images in self.splits.items())
        listener.log(f"images: {sizes}; labels: {', '.join(self.labels)}")
        self.tokenizer = tokenization.train(
            "words", vocabulary_texts(self.labels), min_count=1, lowercase=True, normalization="nfc"
        )
        listener.log(f"vocabulary: {self.tokenizer.size:,} words")
        if world.is_first:
            folder.write_recipe(self.recipe)
            self.tokenizer.save(folder.path / JOINT)
            world.barrier()
        return build_unet(self.recipe.model, self.tokenizer)

    def batches(self, world: World) -> PromptedImageBatches:
        images = self.settings.batch_tokens // self.recipe.model.side**2
        batch_size = self.settings.batch_sentences or max(1, images)
        return self.split_batches("train", batch_size, (world.rank, world.size))

    def split_batches(
        self, split: str, batch_size: int, share: tuple[int, int] = (0, 1)
    ) -> PromptedImageBatches:
        """The images of a split in batches, with their prompts."""
        return PromptedImageBatches(
            self.splits[split],
            self.splits[split].labels,
            {label: encode_prompts(self.tokenizer, prompts_for(label)) for label in self.labels},
            [self.tokenizer.end],
            self.tokenizer.padding,
            batch_size,
            prompt_dropout=self.recipe.train.drop_prompt,
            seed=self.settings.seed,
            shard=share,
        )

    def objective(self, model: nn.Module, precision: torch.dtype) -> NoiseObjective:
        assert isinstance(model, Unet)
        return NoiseObjective(model, self.recipe.train.max_snr, precision)

    def validation(self, logger: MetricsLogger) -> Callable[[nn.Module, int], Scores]:
        def validate(model: nn.Module, step: int) -> Scores:
            with logger.listener.phase("valid", announce=False) as progress:
                return self.measure(model, "valid", progress).scores

        return validate

    def measure(self, model: nn.Module, split: str, progress: PhaseProgress) -> TaskScores:
        """The loss, with the same noise for the same images each time."""
        progress.expect(len(self.splits[split].labels), "images")
        objective = self.objective(model, torch.float32)
        total, count = 0.0, 0
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.settings.seed)
            for batch in self.split_batches(split, EVALUATION_BATCH).once():
                total, count = total + float(objective(batch)), count + batch.rows
                progress.add(batch.rows)
        return TaskScores({"loss": total / count}, count, [])

    def finish(
        self, folder: RunFolder, model: nn.Module, training: Training, listener: ProgressListener
    ) -> TaskRun:
        on = "test" if "test" in self.splits else "validation"
        with listener.phase("test", "" if on == "test" else "on the validation data") as progress:
            measured = self.measure(model, "test" if on == "test" else "valid", progress)
        result = TaskRun.of(folder, self.recipe.task, on, measured, training, model)
        assert isinstance(model, Unet)
        save_picture(draw_training(read_metrics(folder.path / "metrics.jsonl"), "loss"), folder.path / "curves")
        prompts = [usual_prompt(label) for label in self.labels[:10]]
        with listener.phase("sampling", f"{SAMPLES_PER_PROMPT} images of each prompt"):
            images = generate_images(
                model,
                self.tokenizer,
                prompts,
                sampling_options(self.recipe),
                SAMPLES_PER_PROMPT,
                self.settings.seed,
            )
        save_picture(draw_grid(prompts, images), folder.path / "painted")
        folder.write("README.md", self.card(result, training.engine))
        folder.write_config(self.recipe)
        return result

    def card(self, result: TaskRun, engine: str) -> str:
        paint = self.recipe.paint
        facts = {
            "parameters": result.parameters,
            "prompts": f"{len(vocabulary_texts(self.labels))} of {self.tokenizer.size} words",
            "sampling": f"{paint.sampler}, {paint.steps} steps, guidance {paint.guidance:g}",
            "engine": engine,
            "training": f"{result.steps:,} steps, {result.minutes:.1f} minutes, seed {self.settings.seed}",
            "measured on": f"{result.measured.examples:,} {result.on} images",
        }
        measured = result.measured
        card = text_card(
            self.recipe.task, [self.path.name], str(self.recipe.model), facts, measured.scores, measured.rows
        )
        return f"{card}\n![Generated images](painted.png)\n"


def open_splits(folder: Path, recipe: DiffusionRecipe) -> dict[str, Images]:
    """Images for training, validation and test, which must have the model's size."""
    side = recipe.model.side
    splits = open_images(folder, VitConfig(patch=1, height=side, width=side, channels=1))
    for images in splits.values():
        if (images.height, images.width) != (side, side):
            raise RecipeError(
                f"model.side: the images of {folder} are {images.height} x {images.width} pixels, "
                f"not {side} x {side}"
            )
    count = len(splits["train"].labels)
    if "valid" not in splits:
        held_out = recipe.data.held_out
        if held_out >= count:
            raise RegardError(f"data.held_out: {folder} has {count:,} images; {held_out:,} cannot be held out")
        order = np.random.default_rng(1).permutation(count)
        images = splits["train"]
        splits["train"], splits["valid"] = (
            ImageSubset(images, np.sort(index)) for index in (order[held_out:], order[:held_out])
        )
    if "test" in splits:
        splits["test"] = ImageSubset(splits["test"], np.arange(min(TEST_IMAGES, len(splits["test"].labels))))
    return splits


def encode_prompts(tokenizer: Tokenizer, prompts: Sequence[str]) -> list[list[int]]:
    """The ids of prompts, each with its end token."""
    return [[*ids, tokenizer.end] for ids in tokenizer.encode_batch(prompts)]


def build_unet(model: UnetConfig, tokenizer: Tokenizer) -> Unet:
    return Unet(model, tokenizer.size, tokenizer.padding)


def sampling_options(recipe: DiffusionRecipe) -> DiffusionConfig:
    """The recipe's sampling settings."""
    return DiffusionConfig(recipe.paint.sampler, recipe.paint.steps, recipe.paint.guidance)


def generate_images(
    model: Unet,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    options: DiffusionConfig,
    count: int,
    seed: int,
    batch_size: int = 32,
) -> np.ndarray:
    """`count` images per prompt, from 0 to 1: (prompts, count, side, side).

    The n-th images of all prompts start from the same noise, with seed `seed` + n.
    """
    device = next(model.parameters()).device
    rows = [ids for ids in encode_prompts(tokenizer, prompts) for _ in range(count)]
    seeds = [seed + number for _ in prompts for number in range(count)]
    empty_prompt = torch.tensor([[tokenizer.end]], device=device)
    batches = []
    for first in range(0, len(rows), batch_size):
        batch = Packed.from_rows(rows[first : first + batch_size]).padded(tokenizer.padding).to(device)
        batch_seeds = seeds[first : first + batch_size]
        batches.append(sample_images(model, batch, empty_prompt, options, batch_seeds).cpu())
    pixels = ((torch.cat(batches) + 1) / 2).clamp(0, 1).squeeze(1)
    return pixels.view(len(prompts), count, *pixels.shape[1:]).numpy()
