"""The loop: batches, loss, gradient, update, and now and then a validation. What those mean is handed in."""

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.config import LoopSettings
from regard.data.stream import Cursor
from regard.errors import Stopped, TrainingError
from regard.training.ahead import ahead
from regard.training.average import Average
from regard.training.distributed import World
from regard.training.optimiser import make_optimiser, make_schedule
from regard.training.schedule import Schedule
from regard.training.sharding import is_sharded, whole

Item = TypeVar("Item")

MOST_SKIPPED = 10
"""Updates in a row that may be left out."""


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


class Batch(Protocol):
    """Examples that are computed together, whatever they are."""

    @property
    def tokens(self) -> int:
        """Tokens that are not padding, of the whole batch: also where this is one process's share of it."""

    @property
    def golds(self) -> int:
        """Decisions that the loss is a sum over, of the whole batch."""

    @property
    def rows(self) -> int:
        """Examples in this process's share."""

    @property
    def sentences(self) -> tuple[int, ...]:
        """Which examples these are."""

    def stand_in(self) -> Self:
        """One example of nothing, for a process that has no row but must compute with the others."""

    def pinned(self) -> Self:
        """The same in memory that a GPU can fetch by itself."""


class Batches(Protocol):
    """Where batches come from: without end, from any cursor on."""

    def stream(self, cursor: Cursor) -> Iterator[tuple[Any, Cursor]]: ...

    def per_epoch(self) -> int: ...


Objective = Callable[[Any], Tensor]
"""The loss of a batch, summed over its golds."""

Scores = dict[str, float]
Validate = Callable[[nn.Module, int], Scores]
"""Measures a model after so many steps: `loss`, and what else the task has scores for."""


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

    def skipped(self, step: int, why: str) -> None: ...


class Window:
    """Loss and speed since the last report."""

    def __init__(self, loss: float = 0.0, golds: int = 0) -> None:
        self.loss = torch.tensor(loss)
        self.golds = golds
        self.timed = 0
        """Tokens since the clock was started: not those before an interruption."""
        self.since = time.perf_counter()

    def add(self, loss: Tensor, golds: int, tokens: int) -> None:
        self.loss = self.loss.to(loss.device) + loss
        self.golds += golds
        self.timed += tokens

    def report(self, training: "Training", rate: float) -> Progress:
        """How training stands; a new window begins."""
        speed = self.timed / max(1e-9, time.perf_counter() - self.since)
        progress = Progress(
            step=training.step,
            epoch=training.cursor.epoch + 1,
            loss=float(self.loss) / max(1, self.golds),
            rate=rate,
            tokens_per_second=speed,
            minutes=training.seconds / 60,
            done=min(1.0, training.done()),
        )
        self.loss, self.golds, self.timed, self.since = torch.tensor(0.0), 0, 0, time.perf_counter()
        return progress

    def leave_out(self, seconds: float) -> None:
        """Time that was not spent on training steps."""
        self.since += seconds


@dataclass
class Training:
    """A training in progress: everything a checkpoint holds, so that it can go on as if never interrupted."""

    model: nn.Module
    settings: LoopSettings
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
    skipped: int = 0
    """Updates left out one after another, up to the latest."""
    window: Window = field(default_factory=Window)
    world: World = field(default_factory=World)
    kept: nn.Module | None = None
    """Where the model is sharded, a whole one in the first process, to validate with and to write."""

    def __post_init__(self) -> None:
        self.sharded = is_sharded(self.model)
        self.optimiser = make_optimiser(self.model, self.settings)
        self.average = Average(self.model, self.settings, self.kept)
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
    keep_best: Callable[[nn.Module], None],
    checkpoint: Callable[[], object],
    asked_to_stop: Callable[[], int | None] = lambda: None,
) -> None:
    """Train until the budget is used up. `keep_best` is called with a model that has the averaged weights.

    `asked_to_stop` gives the number of a signal that came: the training is saved, then `Stopped` is raised.
    """
    settings, window = training.settings, training.window
    clock = Clock(training)
    window.since = time.perf_counter()
    with ahead(training.batches.stream(training.cursor), pinned(training.model)) as stream:
        while training.done() < 1.0:
            group = [next(stream) for _ in range(settings.accumulate)]
            rate = training.rate()
            one_update(training, objective, [batch for batch, _ in group], rate, watcher)
            training.cursor = group[-1][1]
            training.step += 1
            clock.tick()
            # All processes go by the first one's clock, and stop when one of them is asked to.
            told = (training.seconds if training.world.first else 0.0, asked_to_stop() or 0)
            training.seconds, signal = training.world.largest(*told)
            if training.step % settings.log_every == 0 or training.done() >= 1.0:
                watcher.progress(window.report(training, rate))
            if training.validation_due() or training.done() >= 1.0:
                validation(training, validate, watcher, keep_best)
                window.leave_out(clock.tick())
            if training.checkpoint_due() or signal:
                checkpoint()
                window.leave_out(clock.tick())
            if signal:
                raise Stopped(
                    f"stopped after step {training.step}, and saved; go on with --resume", int(signal)
                )


def pinned(model: nn.Module) -> Callable[[tuple[Any, Cursor]], tuple[Any, Cursor]]:
    """For a GPU, batches lie in memory it can fetch by itself while it computes."""
    on_gpu = next(model.parameters()).device.type == "cuda"
    return lambda item: (item[0].pinned(), item[1]) if on_gpu else item


def one_update(
    training: Training, objective: Objective, batches: Sequence[Batch], rate: float, watcher: Watcher
) -> None:
    """Gradients of all batches over the golds of all: equal to one large batch.

    An update that is not finite is left out or ends the training, as set.
    """
    golds = sum(batch.golds for batch in batches)
    parameters = [each for each in training.model.parameters() if each.requires_grad]
    torch.manual_seed(chance_of(training))
    training.optimiser.zero_grad(set_to_none=True)
    total = torch.zeros((), device=parameters[0].device)
    for batch in batches:
        if not batch.rows:  # fewer rows than processes
            if training.sharded:  # its part of the weights is asked for all the same
                (objective(batch.stand_in()) * 0).backward()  # type: ignore[no-untyped-call]
            continue
        with memory_told(training, batch):
            loss = objective(batch)
            (loss / golds).backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
    if training.sharded:  # then gradients are added up already
        training.world.add_up([total])
    elif training.world.size > 1:
        for each in parameters:
            each.grad = torch.zeros_like(each) if each.grad is None else each.grad
        training.world.add_up([*(each.grad for each in parameters if each.grad is not None), total])
    norm = whole(nn.utils.clip_grad_norm_(parameters, training.settings.clip or math.inf, foreach=True))
    # To ask a GPU is to wait for it: there, only as often as a report is written.
    asked = norm.device.type == "cpu" or training.step % training.settings.log_every == 0
    if asked and not bool(torch.isfinite(norm) & torch.isfinite(total)):
        leave_out(training, f"{float(total) / golds}", f"{float(norm)}", batches, watcher)
        return
    training.skipped = 0
    update(training.optimiser, rate)
    training.average.after_step()
    training.window.add(total, golds, sum(batch.tokens for batch in batches))


def chance_of(training: Training) -> int:
    """A seed for one update of one process: dropout is the same however often the training was interrupted."""
    told = f"{training.settings.seed} {training.step} {training.world.rank}"
    return int.from_bytes(hashlib.blake2b(told.encode(), digest_size=8).digest(), "little") >> 1


def leave_out(training: Training, loss: str, norm: str, batches: Sequence[Batch], watcher: Watcher) -> None:
    """No update from batches whose loss or gradient is not finite; end the training where that is set."""
    training.optimiser.zero_grad(set_to_none=True)
    pairs = [number for batch in batches for number in batch.sentences]
    named = ", ".join(map(str, pairs[:5])) + (f" and {len(pairs) - 5} more" if len(pairs) > 5 else "")
    step = training.step + 1
    why = f"step {step}: the loss is {loss}, the gradient's norm {norm}; the batch holds the pairs {named}"
    training.skipped += 1
    if training.settings.not_finite == "stop":
        raise TrainingError(f'{why}; with train.not_finite = "skip" such batches are left out')
    if training.skipped >= MOST_SKIPPED:
        raise TrainingError(f"{why}; {MOST_SKIPPED} updates in a row were not finite")
    watcher.skipped(step, why)


@contextmanager
def memory_told(training: Training, batch: Batch) -> Iterator[None]:
    """Name the batch that memory did not suffice for, and what to change."""
    try:
        yield
    except (MemoryError, RuntimeError) as problem:
        text = str(problem).lower()
        if not isinstance(problem, MemoryError | torch.OutOfMemoryError) and not any(
            words in text for words in ("out of memory", "can't allocate memory", "not enough memory")
        ):
            raise
        raise TrainingError(
            f"step {training.step + 1}: no memory for {batch}; train.batch_tokens is "
            f"{training.settings.batch_tokens}: take less, with train.accumulate for updates of the same size"
        ) from None


def validation(
    training: Training, validate: Validate, watcher: Watcher, keep_best: Callable[[nn.Module], None]
) -> None:
    """The first process measures the averaged weights, and keeps them if they are the best so far."""
    training.average.before_validation()
    with training.average.applied() as model:
        if training.world.first:
            model.eval()
            scores = validate(model, training.step)
            by = training.settings.best_by
            score = -scores[by] if by == "loss" else scores[by]
            best = training.best is None or score > training.best
            if best:
                training.best, training.stale = score, 0
                keep_best(model)
            else:
                training.stale += 1
            model.train()
            watcher.validated(training.step, training.seconds / 60, scores, best)
    # The others have waited, and go by what it found.
    number, stale = training.world.from_first(
        math.nan if training.best is None else training.best, training.stale
    )
    training.best, training.stale = None if math.isnan(number) else number, int(stale)


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
