"""One training update: by regard's training step, and by the loop of the peers' documentation."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from regard.config.training import TextTrainConfig
from regard.tasks.translation.config import TranslationTrainConfig
from regard.training.state import Training
from regard.training.update import train_step

CLIP = 1.0
LR = 5e-5


class NoBatches:
    """Placeholder for the data of a training run whose batches come from the benchmark."""

    def batches_per_epoch(self) -> int:
        return 1


class FailOnSkippedUpdate:
    """Raises if an update is skipped: it would count as a fast one."""

    def skipped(self, step: int, reason: str) -> None:
        raise RuntimeError(reason)


def training_of(
    model: nn.Module, width: int, settings: TextTrainConfig | TranslationTrainConfig | None = None
) -> Training:
    """Training state of a model whose batches come from the benchmark."""
    return Training(model, settings or TextTrainConfig(steps=1, clip_norm=CLIP), NoBatches(), width)  # type: ignore[arg-type]


def updates(
    model: nn.Module,
    objective: Any,
    width: int,
    settings: TextTrainConfig | TranslationTrainConfig | None = None,
    lr: float = LR,
) -> Callable[[Any], object]:
    """A function that makes one update with a batch, as in `regard train`."""
    training = training_of(model, width, settings)
    return lambda batch: train_step(training, objective, [batch], lr, FailOnSkippedUpdate())  # type: ignore[arg-type]


def peer_update(model: nn.Module, optimizer: Optimizer, loss: Tensor) -> None:
    """The update of the peers' documentation, with gradients clipped as in regard."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
