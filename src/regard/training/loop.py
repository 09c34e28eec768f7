"""The loop: batches, loss, gradient, update, and now and then a validation. What those mean is handed in."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.config import TrainSettings
from regard.data.batches import Batch, Batches, Cursor
from regard.training.average import Average
from regard.training.optimiser import make_optimiser, make_schedule
from regard.training.schedule import Schedule

Item = TypeVar("Item")


@dataclass(frozen=True)
class Step:
    """What one update did."""

    number: int
    loss: float
    rate: float


def fit(
    optimiser: Optimizer, schedule: Schedule, batches: Iterable[Item], loss_of: Callable[[Item], Tensor]
) -> Iterator[Step]:
    """One update for each batch; yields after each, so whoever iterates decides what happens between."""
    for number, batch in enumerate(batches, start=1):
        loss = loss_of(batch)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types there
        rate = schedule(number)
        update(optimiser, rate)
        yield Step(number, float(loss.detach()), rate)


def update(optimiser: Optimizer, rate: float) -> None:
    """Take a step at this rate."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()


Objective = Callable[[Batch], Tensor]
"""The loss of a batch, summed over its gold tokens."""

Scores = dict[str, float]
Validate = Callable[[nn.Module, int], Scores]
"""Measures a model after so many steps: `loss`, and `bleu` where it is wanted."""


@dataclass(frozen=True)
class Progress:
    """How training stands, averaged since the last report."""

    step: int
    epoch: int
    loss: float
    rate: float
    tokens_per_second: float
    minutes: float
    done: float
    """Share of the budget used."""


class Watcher(Protocol):
    """Told what happens; the loop does not care what it does about it."""

    def progress(self, progress: Progress) -> None: ...

    def validated(self, step: int, minutes: float, scores: Scores, best: bool) -> None: ...


@dataclass
class Training:
    """A training in progress: everything a checkpoint holds, so that it can go on as if never interrupted."""

    model: nn.Module
    settings: TrainSettings
    batches: Batches
    width: int
    """Size of a token's vector, which the noam schedule asks for."""
    optimiser: Optimizer = field(init=False)
    average: Average = field(init=False)
    cursor: Cursor = field(default_factory=Cursor)
    step: int = 0
    seconds: float = 0.0
    """Spent on training and validation, also before an interruption."""
    best: float | None = None
    stale: int = 0
    """Validations since the best one."""

    def __post_init__(self) -> None:
        self.optimiser = make_optimiser(self.model, self.settings)
        self.average = Average(self.model, self.settings)
        self.per_epoch = max(1, math.ceil(self.batches.per_epoch() / self.settings.accumulate))

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

    def rate(self) -> float:
        """The rate of the coming step; a schedule that comes down reaches its end when the budget does."""
        done = self.done()
        total = (self.step + 1) / done if done > 0.01 else max(self.settings.steps or 0, 100 * self.per_epoch)
        counted = self.settings.accumulate if self.settings.rate_by == "batches" else 1
        return make_schedule(self.settings, self.width, total * counted)((self.step + 1) * counted)

    def validation_due(self) -> bool:
        return self.step % (self.settings.validate_every or self.per_epoch) == 0

    def checkpoint_due(self) -> bool:
        every = self.settings.checkpoint_every
        return self.step % every == 0 if every else self.validation_due()


def run(
    training: Training,
    objective: Objective,
    validate: Validate,
    watcher: Watcher,
    *,
    keep_best: Callable[[], None],
    checkpoint: Callable[[], object],
) -> None:
    """Train until the budget is used up. `keep_best` is called with the averaged weights in the model."""
    settings = training.settings
    clock = Clock(training)
    window = Window()
    stream = training.batches.stream(training.cursor)
    while training.done() < 1.0:
        group = [next(stream) for _ in range(settings.accumulate)]
        tokens = sum(batch.tokens for batch, _ in group)
        rate = training.rate()
        window.add(one_update(training, objective, [batch for batch, _ in group], tokens, rate), tokens)
        training.cursor = group[-1][1]
        training.step += 1
        clock.tick()
        if training.step % settings.log_every == 0 or training.done() >= 1.0:
            watcher.progress(window.report(training, rate))
        if training.validation_due() or training.done() >= 1.0:
            validation(training, validate, watcher, keep_best)
            window.leave_out(clock.tick())
        if training.checkpoint_due():
            checkpoint()
            window.leave_out(clock.tick())


def one_update(
    training: Training, objective: Objective, batches: list[Batch], tokens: int, rate: float
) -> Tensor:
    """Gradients of all batches over the tokens of all: equal to one large batch. Gives the summed loss."""
    training.optimiser.zero_grad(set_to_none=True)
    total = torch.zeros(())
    for batch in batches:
        loss = objective(batch)
        (loss / tokens).backward()  # type: ignore[no-untyped-call]
        total = total.to(loss.device) + loss.detach()
    if training.settings.clip:
        nn.utils.clip_grad_norm_(training.model.parameters(), training.settings.clip, foreach=True)
    update(training.optimiser, rate)
    training.average.after_step()
    return total


def validation(training: Training, validate: Validate, watcher: Watcher, keep_best: Callable[[], None]) -> None:
    """Measure the averaged weights, and keep them if they are the best so far."""
    training.average.before_validation()
    with training.average.applied() as model:
        model.eval()
        scores = validate(model, training.step)
        score = scores["bleu"] if training.settings.best_by == "bleu" else -scores["loss"]
        best = training.best is None or score > training.best
        if best:
            training.best, training.stale = score, 0
            keep_best()
        else:
            training.stale += 1
        model.train()
    watcher.validated(training.step, training.seconds / 60, scores, best)


class Clock:
    """Adds the time that passes to the training's own."""

    def __init__(self, training: Training) -> None:
        self.training, self.last = training, time.perf_counter()

    def tick(self) -> float:
        """Add the seconds since the last tick, and give them."""
        now = time.perf_counter()
        passed, self.last = now - self.last, now
        self.training.seconds += passed
        return passed


class Window:
    """Loss and speed since the last report."""

    def __init__(self) -> None:
        self.loss = torch.zeros(())
        self.tokens = 0
        self.since = time.perf_counter()

    def add(self, loss: Tensor, tokens: int) -> None:
        self.loss = self.loss.to(loss.device) + loss
        self.tokens += tokens

    def report(self, training: Training, rate: float) -> Progress:
        speed = self.tokens / max(1e-9, time.perf_counter() - self.since)
        progress = Progress(
            step=training.step,
            epoch=training.cursor.epoch + 1,
            loss=float(self.loss) / max(1, self.tokens),
            rate=rate,
            tokens_per_second=speed,
            minutes=training.seconds / 60,
            done=min(1.0, training.done()),
        )
        self.loss, self.tokens, self.since = torch.zeros(()), 0, time.perf_counter()
        return progress

    def leave_out(self, seconds: float) -> None:
        """Time that was not spent on training steps."""
        self.since += seconds
