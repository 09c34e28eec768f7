"""The recipe of kernel regression."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config.data import CurveDataConfig
from regard.config.models import (
    KernelRegressionConfig,
)
from regard.config.recipes import Recipe
from regard.config.schema import Count, Positive, Whole


@dataclass(frozen=True)
class KernelTrainConfig:
    """Settings of learning the sharpness by the leave-one-out error."""

    steps: Count = 200
    lr: Positive = 0.1
    seed: Whole = 1
    device: str = "auto"
    """Device: auto for the accelerator if there is one; or cpu, cuda, cuda:1, mps, ..."""


@dataclass(frozen=True)
class KernelRegressionRecipe(Recipe):
    """Nadaraya-Watson kernel regression."""

    task: Literal["kernel-regression"] = "kernel-regression"
    data: CurveDataConfig = field(default_factory=CurveDataConfig)
    model: KernelRegressionConfig = field(default_factory=KernelRegressionConfig)
    train: KernelTrainConfig = field(default_factory=KernelTrainConfig)
