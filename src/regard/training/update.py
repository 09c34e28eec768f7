"""One update: loss, gradient, a step of the optimizer; and what is done where numbers or memory fail."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.errors import TrainingError, is_out_of_memory
from regard.training.devices import device_module
from regard.training.schedules import Schedule
from regard.training.sharding import whole
from regard.training.state import Batch, Objective, Training, Watcher

Item = TypeVar("Item")

MOST_SKIPPED = 10
"""Updates in a row that may be left out."""


@dataclass(frozen=True)
class Step:
    """What one update did."""

    number: int
    loss: float
    lr: float


def fit(
    optimizer: Optimizer, schedule: Schedule, batches: Iterable[Item], loss_of: Callable[[Item], Tensor]
) -> Iterator[Step]:
    """One update for each batch; yields after each, so whoever iterates decides what happens between."""
    for number, batch in enumerate(batches, start=1):
        loss = loss_of(batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types there
        lr = schedule(number)
        update(optimizer, lr)
        yield Step(number, float(loss.detach()), lr)


def update(optimizer: Optimizer, lr: float) -> None:
    """Take a step at this rate."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("pace", 1.0)
    optimizer.step()


def one_update(
    training: Training, objective: Objective, batches: Sequence[Batch], lr: float, watcher: Watcher
) -> None:
    """Gradients of all batches, divided by the targets of all: equal to one large batch.

    An update that is not finite is left out or ends the training, as set.
    """
    num_targets = sum(batch.num_targets for batch in batches)
    parameters = [each for each in training.model.parameters() if each.requires_grad]
    seed_generators(parameters[0].device, chance_of(training))
    training.optimizer.zero_grad(set_to_none=True)
    total = torch.zeros((), device=parameters[0].device)
    for batch in batches:
        if not batch.rows:  # fewer rows than processes
            if training.sharded:  # its part of the weights is asked for all the same
                (objective(batch.placeholder()) * 0).backward()  # type: ignore[no-untyped-call]
            continue
        with memory_error_named(training, batch):
            loss = objective(batch)
            (loss / num_targets).backward()  # type: ignore[no-untyped-call]
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
        leave_out(training, f"{float(total) / num_targets}", f"{float(norm)}", batches, watcher)
        return
    training.skipped = 0
    update(training.optimizer, lr)
    training.average.after_step()
    training.window.add(total, num_targets, sum(batch.tokens for batch in batches))


def chance_of(training: Training) -> int:
    """A seed for one update of one process: dropout is the same however often the training was interrupted."""
    told = f"{training.settings.seed} {training.step} {training.world.rank}"
    return int.from_bytes(hashlib.blake2b(told.encode(), digest_size=8).digest(), "little") >> 1


def seed_generators(device: torch.device, seed: int) -> None:
    """`torch.manual_seed` for the devices in use: it would seed all GPUs, and note a stack trace per call."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        device_module(device).manual_seed(seed)


def leave_out(training: Training, loss: str, norm: str, batches: Sequence[Batch], watcher: Watcher) -> None:
    """No update from batches whose loss or gradient is not finite; end the training where that is set."""
    training.optimizer.zero_grad(set_to_none=True)
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
def memory_error_named(training: Training, batch: Batch) -> Iterator[None]:
    """Name the batch that memory did not suffice for, and what to change."""
    try:
        yield
    except Exception as problem:
        if not is_out_of_memory(problem):
            raise
        settings = training.settings
        size = "batch_sentences" if settings.batch_sentences else "batch_tokens"
        raise TrainingError(
            f"Out of memory on {batch}. Lower train.{size} (now {getattr(settings, size)}) and raise "
            "train.grad_accum to keep the effective batch size."
        ) from None
