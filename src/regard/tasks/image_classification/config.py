"""The recipe of image classification."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config.data import ImageDataConfig
from regard.config.models import (
    TokenReductionConfig,
    VitConfig,
)
from regard.config.recipes import Recipe
from regard.config.schema import defaults
from regard.config.training import SmoothedTrainConfig


@dataclass(frozen=True)
@defaults(
    batch_tokens=6400,  # patches and class tokens
    optimizer="adamw",
    beta2=0.999,
    epsilon=1e-8,
    weight_decay=0.05,
    schedule="cosine",
    warmup=200,
)
class ImageTrainConfig(SmoothedTrainConfig):
    """Training settings of a Vision Transformer."""

    best_by: Literal["accuracy", "f1", "loss"] = "accuracy"


@dataclass(frozen=True)
class ImageClassificationRecipe(Recipe):
    """A Vision Transformer that classifies images."""

    task: Literal["image-classification"]
    data: ImageDataConfig = field(default_factory=ImageDataConfig)
    model: VitConfig = field(default_factory=VitConfig)
    reduce: TokenReductionConfig = field(default_factory=TokenReductionConfig)
    train: ImageTrainConfig = field(default_factory=lambda: ImageTrainConfig(epochs=10))

    def __post_init__(self) -> None:
        if self.reduce.prune != "none" and self.model.pooling == "mean":
            raise ValueError(
                'reduce.prune: mean pooling needs all tokens; tokens can be pruned with model.pooling = "class"'
            )
