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
    """How the sharpness is learned: each point predicted from all the others."""

    steps: Count = 200
    lr: Positive = 0.1
    seed: Whole = 1
    device: str = "auto"
    """Where to compute: auto takes the accelerator if there is one; or cpu, cuda, cuda:1, mps, ..."""


@dataclass(frozen=True)
class KernelRegressionRecipe(Recipe):
    """Nadaraya-Watson kernel regression."""

    task: Literal["kernel-regression"] = "kernel-regression"
    data: CurveDataConfig = field(default_factory=CurveDataConfig)
    model: KernelRegressionConfig = field(default_factory=KernelRegressionConfig)
    train: KernelTrainConfig = field(default_factory=KernelTrainConfig)
