"""One update of a model: by regard's own training step, and by the loop that the peers' documentation shows."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from regard.config.training import TextTrainConfig
from regard.tasks.translation.config import TranslationTrainConfig
from regard.training.state import Training
from regard.training.update import one_update

CLIP = 1.0
LR = 5e-5


class NoBatches:
    """The data of a training whose batches come from the benchmark: one batch an epoch."""

    def batches_per_epoch(self) -> int:
        return 1


class StrictWatcher:
    """Raises if an update is skipped: it would be measured as a fast one."""

    def skipped(self, step: int, why: str) -> None:
        raise RuntimeError(why)


def training_of(
    model: nn.Module, width: int, settings: TextTrainConfig | TranslationTrainConfig | None = None
) -> Training:
    """Weights, optimizer and average of a training whose batches come from the benchmark."""
    return Training(model, settings or TextTrainConfig(steps=1, clip=CLIP), NoBatches(), width)  # type: ignore[arg-type]


def updates(
    model: nn.Module,
    objective: Any,
    width: int,
    settings: TextTrainConfig | TranslationTrainConfig | None = None,
    lr: float = LR,
) -> Callable[[Any], object]:
    """A function that makes one update from a batch, as the loop of `regard train` does."""
    training = training_of(model, width, settings)
    return lambda batch: one_update(training, objective, [batch], lr, StrictWatcher())  # type: ignore[arg-type]


def peer_update(model: nn.Module, optimizer: Optimizer, loss: Tensor) -> None:
    """The update that the peers' documentation shows, with gradients clipped as in regard's."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
