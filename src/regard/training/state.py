"""A training in progress: what it is made of, where it stands, and who is told."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.config.training import TrainConfig
from regard.data.batch_order import Cursor
from regard.training.distributed import World
from regard.training.ema import Average
from regard.training.optimizers import make_optimizer, make_schedule
from regard.training.sharding import is_sharded


class Batch(Protocol):
    """Examples that are computed together, whatever they are."""

    @property
    def tokens(self) -> int:
        """Tokens of the whole batch, also where this is one process's share of it."""

    @property
    def num_targets(self) -> int:
        """Labels that the loss is a sum over, of the whole batch."""

    @property
    def rows(self) -> int:
        """Examples in this process's share."""

    @property
    def sentences(self) -> tuple[int, ...]:
        """Which examples these are."""

    def placeholder(self) -> Self:
        """One example of nothing, for a process that has no row but must compute with the others."""

    def pin_memory(self) -> Self:
        """The same in page-locked memory, from which a GPU copies while it computes."""


class Batches(Protocol):
    """Where batches come from: without end, from any cursor on."""

    def stream(self, cursor: Cursor) -> Iterator[tuple[Any, Cursor]]: ...

    def batches_per_epoch(self) -> int: ...


Objective = Callable[[Any], Tensor]
"""The loss of a batch, summed over its targets."""

Scores = dict[str, float]
Validate = Callable[[nn.Module, int], Scores]
"""Measures a model after so many steps: `loss`, and what else the task has scores for."""


@dataclass(frozen=True)
class Progress:
    """How training stands, averaged since the last report."""

    step: int
    epoch: int
    loss: float
    lr: float
    tokens_per_second: float
    minutes: float
    done: float
    """Share of the budget used."""


class Watcher(Protocol):
    """Told what happens; the loop does not care what it does about it."""

    def progress(self, progress: Progress) -> None: ...

    def validated(self, step: int, minutes: float, scores: Scores, best: bool) -> None: ...

    def skipped(self, step: int, why: str) -> None: ...


class Window:
    """Loss and speed since the last report."""

    def __init__(self, loss: float = 0.0, num_targets: int = 0) -> None:
        self.loss = torch.tensor(loss)
        self.num_targets = num_targets
        self.timed = 0
        """Tokens since the clock was started: not those before an interruption."""
        self.since = time.perf_counter()

    def add(self, loss: Tensor, num_targets: int, tokens: int) -> None:
        self.loss = self.loss.to(loss.device) + loss
        self.num_targets += num_targets
        self.timed += tokens

    def report(self, training: "Training", lr: float) -> Progress:
        """How training stands; a new window begins."""
        speed = self.timed / max(1e-9, time.perf_counter() - self.since)
        progress = Progress(
            step=training.step,
            epoch=training.cursor.epoch + 1,
            loss=float(self.loss) / max(1, self.num_targets),
            lr=lr,
            tokens_per_second=speed,
            minutes=training.seconds / 60,
            done=min(1.0, training.done()),
        )
        self.loss, self.num_targets, self.timed, self.since = torch.tensor(0.0), 0, 0, time.perf_counter()
        return progress

    def leave_out(self, seconds: float) -> None:
        """Time that was not spent on training steps."""
        self.since += seconds


@dataclass
class Training:
    """A training in progress: everything a checkpoint holds, so that it can go on as if never interrupted."""

    model: nn.Module
    settings: TrainConfig
    batches: Batches
    width: int
    """Size of a token's vector, which the noam schedule asks for."""
    optimizer: Optimizer = field(init=False)
    average: Average = field(init=False)
    cursor: Cursor = field(default_factory=Cursor)
    step: int = 0
    seconds: float = 0.0
    """Spent on training and validation, also before an interruption."""
    best: float | None = None
    stale: int = 0
    """Validations since the best one."""
    skipped: int = 0
    """Updates left out one after another, up to the latest."""
    window: Window = field(default_factory=Window)
    world: World = field(default_factory=World)
    kept: nn.Module | None = None
    """Where the model is sharded, a whole one in the first process, to validate with and to write."""
    engine: str = ""
    """Which engine computes the training steps, and if not the native one, why."""

    def __post_init__(self) -> None:
        self.sharded = is_sharded(self.model)
        self.optimizer = make_optimizer(self.model, self.settings)
        self.average = Average(self.model, self.settings, self.kept)
        self.per_epoch = max(1, math.ceil(self.batches.batches_per_epoch() / self.settings.grad_accum))

    def done(self) -> float:
        """Share of the budget used; training ends at 1."""
        spent = [0.0]
        if self.settings.steps is not None:
            spent.append(self.step / self.settings.steps)
        if self.settings.epochs is not None:
            # Not done before the last batch, however few batches an epoch was expected to have.
            expected = min(0.9999, self.step / (self.per_epoch * self.settings.epochs))
            spent.append(1.0 if self.cursor.epoch >= self.settings.epochs else expected)
        if self.settings.minutes is not None:
            spent.append(self.seconds / 60 / self.settings.minutes)
        patient = self.settings.patience == 0 or self.stale < self.settings.patience
        return max(spent) if patient else 1.0

    def lr(self) -> float:
        """The rate of the coming step; a schedule that comes down reaches its end when the budget does."""
        done = self.done()
        total = (self.step + 1) / done if done > 0.01 else max(self.settings.steps or 0, 100 * self.per_epoch)
        counted = self.settings.grad_accum if self.settings.lr_by == "batches" else 1
        return make_schedule(self.settings, self.width, total * counted)((self.step + 1) * counted)

    def validation_due(self) -> bool:
        return self.step % (self.settings.validate_every or self.per_epoch) == 0

    def checkpoint_due(self) -> bool:
        every = self.settings.checkpoint_every
        return self.step % every == 0 if every else self.validation_due()
