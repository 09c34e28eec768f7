"""Updates of regard's own training step on batches that come from a benchmark, and of a peer's."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

import regard.engine
from regard.config import TextTrain, TrainSettings
from regard.training.state import Training
from regard.training.update import one_update

CLIP = 1.0
RATE = 5e-5


def prepared(model: nn.Module) -> nn.Module:
    """The model as `regard train` has it: with the native engine attached, where that is a step of its own."""
    attach = getattr(regard.engine, "attach", None)
    return model if attach is None else attach(model)


def training_of(model: nn.Module, width: int, settings: TextTrain | TrainSettings | None = None) -> Training:
    """Weights, optimiser and average of a training whose batches come from outside."""
    return Training(model, settings or TextTrain(steps=1, clip=CLIP), NoBatches(), width)  # type: ignore[arg-type]


def updates(
    model: nn.Module,
    objective: Any,
    width: int,
    settings: TextTrain | TrainSettings | None = None,
    rate: float = RATE,
) -> Callable[[Any], object]:
    """A function that makes one update of each batch it is given."""
    training = training_of(model, width, settings)
    return lambda batch: one_update(training, objective, [batch], rate, Strict())  # type: ignore[arg-type]


class NoBatches:
    """Stands in for the batches of a training, which are asked for the length of an epoch."""

    def per_epoch(self) -> int:
        return 1


class Strict:
    """Stands in for the watcher of a training: an update left out would be measured as a fast one."""

    def skipped(self, step: int, why: str) -> None:
        raise RuntimeError(why)


def peer_update(model: nn.Module, optimiser: Optimizer, loss: Tensor) -> None:
    """The update that the peers' documentation shows, with gradients clipped as in regard's."""
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimiser.step()
