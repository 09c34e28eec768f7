"""Updates of ours on batches that come from outside, for measuring."""

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.config import TextTrain, TrainSettings
from regard.training.state import Training
from regard.training.update import one_update

CLIP = 1.0
RATE = 5e-5


def updates(
    model: nn.Module, objective: Any, width: int, settings: TextTrain | TrainSettings | None = None
) -> Callable[[Any], object]:
    """What makes one update of each batch it is given."""
    chosen = settings or TextTrain(steps=1, clip=CLIP)
    training = Training(model, chosen, _NoBatches(), width)  # type: ignore[arg-type]
    return lambda batch: one_update(training, objective, [batch], RATE, _Nobody())  # type: ignore[arg-type]


class _NoBatches:
    """The loop asks how long an epoch is; here the batches come from outside."""

    def per_epoch(self) -> int:
        return 1


class _Nobody:
    def skipped(self, step: int, why: str) -> None:
        raise RuntimeError(why)
