"""The recipe of a diffusion model."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config.models import (
    UnetConfig,
)
from regard.config.recipes import Recipe
from regard.config.schema import Count, NotNegative, Share, defaults
from regard.config.training import TrainConfig


@dataclass(frozen=True)
class DiffusionDataConfig:
    """Labelled images; prompts are generated from the labels, in English and in German."""

    path: str | None = None
    """Folder with the four idx files of MNIST or a data set in its format, also as .gz."""
    held_out: Count = 512
    """Training images held out for validation."""


@dataclass(frozen=True)
@defaults(
    batch_tokens=25_088,  # pixels: 32 images of 28 x 28
    optimizer="adamw",
    beta2=0.99,
    epsilon=1e-8,
    schedule="cosine",
    lr=1.2e-3,
    warmup=100,
)
class DiffusionTrainConfig(TrainConfig):
    """Training settings of a U-Net that predicts noise."""

    best_by: Literal["loss"] = "loss"
    drop_prompt: Share = 0.1
    """Share of the images trained on without their prompt, for classifier-free guidance."""
    max_snr: NotNegative = 5.0
    """Min-SNR weighting (Hang et al. 2023): limit of the signal-to-noise ratio; 0 means equal weights."""


@dataclass(frozen=True)
class DiffusionSamplingConfig:
    """Default settings of image generation."""

    sampler: Literal["ddim", "ddpm"] = "ddim"
    steps: Count = 30
    guidance: NotNegative = 3.0
    """Classifier-free guidance scale: 1 as trained, 0 ignores the prompt."""


@dataclass(frozen=True)
class DiffusionRecipe(Recipe):
    """A model that generates images from prompts, trained on labelled images."""

    task: Literal["diffusion"]
    data: DiffusionDataConfig = field(default_factory=DiffusionDataConfig)
    model: UnetConfig = field(default_factory=UnetConfig)
    train: DiffusionTrainConfig = field(default_factory=lambda: DiffusionTrainConfig(minutes=30))
    paint: DiffusionSamplingConfig = field(default_factory=DiffusionSamplingConfig)

    def __post_init__(self) -> None:
        if self.paint.steps > self.model.noise_steps:
            raise ValueError(
                f"paint.steps: {self.paint.steps} is more than model.noise_steps = {self.model.noise_steps}"
            )
