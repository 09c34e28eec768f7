"""The state of a training run: model, optimizer, averages, position in the data; progress and its listener."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.config.training import TrainConfig
from regard.data.batch_order import Cursor
from regard.training.distributed import World
from regard.training.optimizers import make_optimizer
from regard.training.schedules import make_schedule
from regard.training.sharding import is_sharded
from regard.training.weight_averaging import WeightAverage


class Batch(Protocol):
    """Examples of any kind that are computed together."""

    @property
    def tokens(self) -> int:
        """Tokens of the whole batch, even if this is only one process's share of it."""

    @property
    def num_targets(self) -> int:
        """Labels of the whole batch, over which the loss is summed."""

    @property
    def rows(self) -> int:
        """Examples in this process's share."""

    @property
    def sentences(self) -> tuple[int, ...]:
        """Indices of the examples."""

    def placeholder(self) -> Self:
        """A dummy example, for a process that has no row but takes part in collective operations."""

    def pin_memory(self) -> Self:
        """The batch in pinned (page-locked) memory, for asynchronous copies to a GPU."""


class Batches(Protocol):
    """An endless stream of batches, from any cursor."""

    def stream(self, cursor: Cursor) -> Iterator[tuple[Any, Cursor]]: ...

    def batches_per_epoch(self) -> int: ...


Objective = Callable[[Any], Tensor]
"""The loss of a batch, summed over its targets."""

Scores = dict[str, float]
Validate = Callable[[nn.Module, int], Scores]
"""Scores of a model at a step: `loss` and the task's own."""


@dataclass(frozen=True)
class Progress:
    """Progress of a training run; loss and speed are averaged since the last report."""

    step: int
    epoch: int
    loss: float
    lr: float
    tokens_per_second: float
    minutes: float
    done: float
    """Fraction of the budget used."""


class TrainingListener(Protocol):
    """Receives the events of the training loop."""

    def stepped(self, training: "Training", lr: float) -> None:
        """After each update, before its report."""

    def progress(self, progress: Progress) -> None: ...

    def validated(self, step: int, minutes: float, scores: Scores, best: bool) -> None: ...

    def skipped(self, step: int, why: str) -> None: ...


class ReportWindow:
    """Loss and speed since the last report."""

    def __init__(self, loss: float = 0.0, num_targets: int = 0) -> None:
        self.loss = torch.tensor(loss)
        self.num_targets = num_targets
        self.timed_tokens = 0
        """Tokens since `since`; those before an interruption are not included."""
        self.since = time.perf_counter()
        self.last: tuple[Progress, int] | None = None
        """The last report and the number of its targets; None before the first one, also after a resume."""

    def add(self, loss: Tensor, num_targets: int, tokens: int) -> None:
        self.loss = self.loss.to(loss.device) + loss
        self.num_targets += num_targets
        self.timed_tokens += tokens

    def report(self, training: "Training", lr: float) -> Progress:
        """Progress of the training run; starts a new window."""
        progress = self.averages(training, lr)
        self.last = progress, self.num_targets
        self.loss, self.num_targets = torch.tensor(0.0), 0
        self.timed_tokens, self.since = 0, time.perf_counter()
        return progress

    def current(self, training: "Training", lr: float) -> Progress:
        """Progress between two reports; loss and speed move from the last report's to those of this window."""
        progress = self.averages(training, lr)
        if self.last is None:
            return progress
        last, last_targets = self.last
        weight = min(1.0, self.num_targets / max(1, last_targets))
        return replace(
            progress,
            loss=weight * progress.loss + (1 - weight) * last.loss,
            tokens_per_second=weight * progress.tokens_per_second + (1 - weight) * last.tokens_per_second,
        )

    def averages(self, training: "Training", lr: float) -> Progress:
        """Progress with the averages over this window."""
        speed = self.timed_tokens / max(1e-9, time.perf_counter() - self.since)
        return Progress(
            step=training.step,
            epoch=training.cursor.epoch + 1,
            loss=float(self.loss) / max(1, self.num_targets),
            lr=lr,
            tokens_per_second=speed,
            minutes=training.seconds / 60,
            done=min(1.0, training.done()),
        )

    def exclude(self, seconds: float) -> None:
        """Exclude time that was not spent on training steps."""
        self.since += seconds


@dataclass
class Training:
    """A training run in progress: all that a checkpoint stores to continue with bit-identical results."""

    model: nn.Module
    settings: TrainConfig
    batches: Batches
    width: int
    """Model width (d_model), for the noam schedule."""
    optimizer: Optimizer = field(init=False)
    average: WeightAverage = field(init=False)
    cursor: Cursor = field(default_factory=Cursor)
    step: int = 0
    seconds: float = 0.0
    """Spent on training and validation, including before an interruption."""
    best: float | None = None
    """Best validation score so far; a loss is negated."""
    stale: int = 0
    """Validations since the best one."""
    skipped: int = 0
    """Consecutive updates skipped, up to the latest."""
    window: ReportWindow = field(default_factory=ReportWindow)
    world: World = field(default_factory=World)
    full_model: nn.Module | None = None
    """Where the model is sharded, the first process's full copy, to validate and save."""
    engine: str = ""
    """Which engine computes the training steps, and if it is not the native one, why."""

    def __post_init__(self) -> None:
        self.sharded = is_sharded(self.model)
        self.optimizer = make_optimizer(self.model, self.settings)
        self.average = WeightAverage(self.model, self.settings, self.full_model)
        self.per_epoch = max(1, math.ceil(self.batches.batches_per_epoch() / self.settings.grad_accum))

    def done(self) -> float:
        """Fraction of the budget used; training ends at 1."""
        spent = [0.0]
        if self.settings.steps is not None:
            spent.append(self.step / self.settings.steps)
        if self.settings.epochs is not None:
            # The number of batches per epoch is an estimate: not done before the last batch.
            expected = min(0.9999, self.step / (self.per_epoch * self.settings.epochs))
            spent.append(1.0 if self.cursor.epoch >= self.settings.epochs else expected)
        if self.settings.minutes is not None:
            spent.append(self.seconds / 60 / self.settings.minutes)
        stops_early = self.settings.patience and self.stale >= self.settings.patience
        return 1.0 if stops_early else max(spent)

    def lr(self) -> float:
        """The learning rate of the next step; a decaying schedule ends when the budget does."""
        done = self.done()
        total = (self.step + 1) / done if done > 0.01 else max(self.settings.steps or 0, 100 * self.per_epoch)
        batches_per_step = self.settings.grad_accum if self.settings.lr_by == "batches" else 1
        return make_schedule(self.settings, self.width, total * batches_per_step)(
            (self.step + 1) * batches_per_step
        )

    def validation_due(self) -> bool:
        return self.step % (self.settings.validate_every or self.per_epoch) == 0

    def checkpoint_due(self) -> bool:
        every = self.settings.checkpoint_every
        return self.step % every == 0 if every else self.validation_due()
