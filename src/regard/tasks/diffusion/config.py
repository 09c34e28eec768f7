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
    """Pictures with labels; prompts are made of the labels, in English and in German."""

    path: str | None = None
    """The folder that holds MNIST's four idx files, also as .gz."""
    held_out: Count = 512
    """Training pictures kept for validation."""


@dataclass(frozen=True)
@defaults(
    batch_tokens=25_088,  # pixels: 32 pictures of 28 x 28
    optimizer="adamw",
    beta2=0.99,
    epsilon=1e-8,
    schedule="cosine",
    lr=1.2e-3,
    warmup=100,
)
class DiffusionTrainConfig(TrainConfig):
    """How a U-Net learns to tell noise from a picture."""

    best_by: Literal["loss"] = "loss"
    drop_prompt: Share = 0.1
    """Share of the pictures shown without their prompt, which guidance needs."""
    max_snr: NotNegative = 5.0
    """Weight of little noise: the ratio of signal to noise counts up to this (Hang et al. 2023); 0: alike."""


@dataclass(frozen=True)
class DiffusionSamplingConfig:
    """How a picture is painted, unless asked otherwise."""

    sampler: Literal["ddim", "ddpm"] = "ddim"
    steps: Count = 30
    guidance: NotNegative = 3.0
    """How much a prompt counts: 1 as learned, 0 not at all, more exaggerates it."""


@dataclass(frozen=True)
class DiffusionRecipe(Recipe):
    """From pictures with labels to a model that paints what a prompt says."""

    task: Literal["diffusion"]
    data: DiffusionDataConfig = field(default_factory=DiffusionDataConfig)
    model: UnetConfig = field(default_factory=UnetConfig)
    train: DiffusionTrainConfig = field(default_factory=lambda: DiffusionTrainConfig(minutes=30))
    paint: DiffusionSamplingConfig = field(default_factory=DiffusionSamplingConfig)

    def __post_init__(self) -> None:
        if self.paint.steps > self.model.noise_steps:
            raise ValueError(
                f"paint.steps: {self.paint.steps} steps are more than the {self.model.noise_steps} of the noise"
            )
