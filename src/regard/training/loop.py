"""The loop: batches, updates, and now and then a validation. What those mean is handed in."""

import math
import time
from collections.abc import Callable
from typing import Any

from torch import nn

from regard.data.batch_order import Cursor
from regard.errors import Stopped
from regard.training.prefetch import ahead
from regard.training.state import Objective, Training, Validate, Watcher
from regard.training.update import one_update


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
            group = [next(stream) for _ in range(settings.grad_accum)]
            lr = training.lr()
            one_update(training, objective, [batch for batch, _ in group], lr, watcher)
            training.cursor = group[-1][1]
            training.step += 1
            clock.tick()
            # All processes go by the first one's clock, and stop when one of them is asked to.
            told = (training.seconds if training.world.first else 0.0, asked_to_stop() or 0)
            training.seconds, signal = training.world.largest(*told)
            if training.step % settings.log_every == 0 or training.done() >= 1.0:
                watcher.progress(window.report(training, lr))
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
    """For a GPU, batches lie in page-locked memory, which it can copy while it computes.

    MPS shares its memory with the CPU.
    """
    pins = next(model.parameters()).device.type not in ("cpu", "mps")
    return lambda item: (item[0].pin_memory(), item[1]) if pins else item


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
