"""The training loop: updates, validations and checkpoints until the budget is used up."""

import math
import time
from collections.abc import Callable
from typing import Any

from torch import nn

from regard.data.batch_order import Cursor
from regard.errors import Stopped
from regard.training.prefetch import prefetch
from regard.training.state import Objective, Training, TrainingListener, Validate
from regard.training.update import train_step


def training_loop(
    training: Training,
    objective: Objective,
    validate: Validate,
    listener: TrainingListener,
    *,
    keep_best: Callable[[nn.Module], None],
    checkpoint: Callable[[], object],
    stop_signal: Callable[[], int | None] = lambda: None,
) -> None:
    """Train until the budget is used up.

    Args:
        training: The state to continue from; updated in place.
        objective: The loss of a batch.
        validate: Scores of a model.
        listener: Receives progress, validation scores and skipped updates.
        keep_best: Called with the averaged model after the best validation so far.
        checkpoint: Saves the training state.
        stop_signal: The number of a signal that has arrived, or None.

    Raises:
        Stopped: A signal has arrived; the state is saved first.
        TrainingError: The loss or gradient is not finite, or memory does not suffice.
    """
    settings, window = training.settings, training.window
    clock = TrainingClock(training)
    window.since = time.perf_counter()
    with prefetch(training.batches.stream(training.cursor), pin_memory(training.model)) as stream:
        while training.done() < 1.0:
            group = [next(stream) for _ in range(settings.grad_accum)]
            lr = training.lr()
            train_step(training, objective, [batch for batch, _ in group], lr, listener)
            training.cursor = group[-1][1]
            training.step += 1
            clock.tick()
            # All processes use the first one's clock, and all stop when one of them receives a signal.
            training.seconds, signal = training.world.all_reduce_max(
                training.seconds if training.world.is_first else 0.0, stop_signal() or 0
            )
            listener.stepped(training, lr)
            if training.step % settings.log_every == 0 or training.done() >= 1.0:
                listener.progress(window.report(training, lr))
            if training.validation_due() or training.done() >= 1.0:
                run_validation(training, validate, listener, keep_best)
                window.exclude(clock.tick())
            if training.checkpoint_due() or signal:
                checkpoint()
                window.exclude(clock.tick())
            if signal:
                raise Stopped(
                    f"stopped after step {training.step}; the training state is saved; continue with --resume",
                    int(signal),
                )


def pin_memory(model: nn.Module) -> Callable[[tuple[Any, Cursor]], tuple[Any, Cursor]]:
    """Copies batches to pinned (page-locked) memory if the model's device has its own memory, such as a GPU."""
    has_own_memory = next(model.parameters()).device.type not in ("cpu", "mps")
    return lambda item: (item[0].pin_memory(), item[1]) if has_own_memory else item


def run_validation(
    training: Training, validate: Validate, listener: TrainingListener, keep_best: Callable[[nn.Module], None]
) -> None:
    """The first process validates the averaged weights, and keeps them if they are the best so far."""
    training.average.before_validation()
    with training.average.applied() as model:
        if training.world.is_first:
            model.eval()
            scores = validate(model, training.step)
            name = training.settings.best_by
            score = -scores[name] if name == "loss" else scores[name]
            is_best = training.best is None or score > training.best
            if is_best:
                training.best, training.stale = score, 0
                keep_best(model)
            else:
                training.stale += 1
            model.train()
            listener.validated(training.step, training.seconds / 60, scores, is_best)
    # The other processes have waited, and take over the result.
    best, stale = training.world.broadcast(math.nan if training.best is None else training.best, training.stale)
    training.best, training.stale = None if math.isnan(best) else best, int(stale)


class TrainingClock:
    """Adds elapsed time to the training run's seconds."""

    def __init__(self, training: Training) -> None:
        self.training, self.last = training, time.perf_counter()

    def tick(self) -> float:
        """Add the seconds since the last tick, and return them."""
        now = time.perf_counter()
        elapsed, self.last = now - self.last, now
        self.training.seconds += elapsed
        return elapsed
