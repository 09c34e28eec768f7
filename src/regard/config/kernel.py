"""What a kernel regression depends on."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config.schema import Count, NotNegative, Positive, Range, Whole


@dataclass(frozen=True)
class CurveData:
    """Points to regress on: y = 2 sin(x) + x^0.8 + noise, or two columns of a file."""

    path: str | None = None
    """A text file with x and y in each line; without it the textbook's curve is drawn."""
    samples: Annotated[int, Range(at_least=2)] = 50
    low: NotNegative = 0.0
    high: Positive = 5.0
    noise: NotNegative = 0.5

    def __post_init__(self) -> None:
        if self.high <= self.low:
            raise ValueError(f"high: {self.high:g} must be above low, which is {self.low:g}")


@dataclass(frozen=True)
class KernelModel:
    """Attention as kernel regression."""

    kernel: Literal["average", "fixed", "learned"] = "learned"
    sharpness: Positive = 1.0
    """The fixed kernel's, and where the learned one starts; averaging has none."""

    def __post_init__(self) -> None:
        if self.kernel == "average" and self.sharpness != 1.0:
            raise ValueError("sharpness: averaging looks at every point alike, so it takes no sharpness")


@dataclass(frozen=True)
class KernelTrain:
    """How the sharpness is learned: each point predicted from all the others."""

    steps: Count = 200
    lr: Positive = 0.1
    seed: Whole = 1
    device: str = "auto"
    """Where to compute: auto takes the accelerator if there is one; or cpu, cuda, cuda:1, mps, ..."""


@dataclass(frozen=True)
class KernelRecipe:
    """Nadaraya-Watson kernel regression."""

    task: Literal["kernel"] = "kernel"
    data: CurveData = field(default_factory=CurveData)
    model: KernelModel = field(default_factory=KernelModel)
    train: KernelTrain = field(default_factory=KernelTrain)
