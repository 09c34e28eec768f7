"""One training step: gradient accumulation, clipping, optimizer step; non-finite losses, lack of memory."""

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
from regard.training.sharding import full_tensor
from regard.training.state import Batch, Objective, Training, TrainingListener

Item = TypeVar("Item")

MAX_SKIPPED = 10
"""Consecutive updates that may be skipped."""


@dataclass(frozen=True)
class Step:
    """Loss and learning rate of one update."""

    number: int
    loss: float
    lr: float


def fit(
    optimizer: Optimizer,
    schedule: Schedule,
    batches: Iterable[Item],
    objective: Callable[[Item], Tensor],
) -> Iterator[Step]:
    """One update per batch, for small models without checkpoints; yields after each update."""
    for number, batch in enumerate(batches, start=1):
        loss = objective(batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types there
        lr = schedule(number)
        optimizer_step(optimizer, lr)
        yield Step(number, float(loss.detach()), lr)


def optimizer_step(optimizer: Optimizer, lr: float) -> None:
    """Take a step at a learning rate, which a parameter group may scale by its `lr_scale`."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("lr_scale", 1.0)
    optimizer.step()


def train_step(
    training: Training, objective: Objective, batches: Sequence[Batch], lr: float, listener: TrainingListener
) -> None:
    """One update with gradient accumulation: equal to an update with one batch of all the examples.

    Args:
        training: The state; updated in place.
        objective: The loss of a batch, summed over its targets.
        batches: The batches whose gradients are accumulated.
        lr: Learning rate of this step.
        listener: Is notified where the update is skipped.

    Raises:
        TrainingError: Loss or gradient are not finite and `train.not_finite` is "stop"; or out of memory.
    """
    num_targets = sum(batch.num_targets for batch in batches)
    parameters = [parameter for parameter in training.model.parameters() if parameter.requires_grad]
    seed_generators(parameters[0].device, step_seed(training))
    training.optimizer.zero_grad(set_to_none=True)
    total = torch.zeros((), device=parameters[0].device)
    for batch in batches:
        if not batch.rows:  # the batch has fewer rows than there are processes
            if training.sharded:  # this process still takes part in the collective operations
                (objective(batch.placeholder()) * 0).backward()  # type: ignore[no-untyped-call]
            continue
        with memory_error_explained(training, batch):
            loss = objective(batch)
            (loss / num_targets).backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
    if training.sharded:  # gradients have been summed by FSDP
        training.world.all_reduce_sum([total])
    elif training.world.size > 1:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        training.world.all_reduce_sum([*gradients, total])
    norm = full_tensor(
        nn.utils.clip_grad_norm_(parameters, training.settings.clip_norm or math.inf, foreach=True)
    )
    # Reading the result synchronizes with a GPU; so there it is checked only as often as progress is logged.
    is_checked = norm.device.type == "cpu" or training.step % training.settings.log_every == 0
    if is_checked and not bool(torch.isfinite(norm) & torch.isfinite(total)):
        skip_update(training, f"{float(total) / num_targets}", f"{float(norm)}", batches, listener)
        return
    training.skipped = 0
    optimizer_step(training.optimizer, lr)
    training.average.after_step()
    training.window.gradient_norm = norm
    training.window.add(total, num_targets, sum(batch.tokens for batch in batches))


def step_seed(training: Training) -> int:
    """The seed of one step of one process: dropout does not depend on interruptions of the training run."""
    key = f"{training.settings.seed} {training.step} {training.world.rank}"
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little") >> 1


def seed_generators(device: torch.device, seed: int) -> None:
    """Seed the CPU's and the device's generator; `torch.manual_seed` would seed all GPUs, and is slower."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        device_module(device).manual_seed(seed)


def skip_update(
    training: Training, loss: str, norm: str, batches: Sequence[Batch], listener: TrainingListener
) -> None:
    """Drop the gradients of batches whose loss or gradient is not finite.

    Raises:
        TrainingError: `train.not_finite` is "stop", or too many consecutive updates were skipped.
    """
    training.optimizer.zero_grad(set_to_none=True)
    numbers = [number for batch in batches for number in batch.sentences]
    listed = ", ".join(map(str, numbers[:5])) + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")
    step = training.step + 1
    message = f"step {step}: the loss is {loss}, the gradient norm {norm}; the batch holds the pairs {listed}"
    training.skipped += 1
    if training.settings.not_finite == "stop":
        raise TrainingError(f'{message}; set train.not_finite = "skip" to skip such batches')
    if training.skipped >= MAX_SKIPPED:
        raise TrainingError(f"{message}; {MAX_SKIPPED} consecutive updates were not finite")
    listener.skipped(step, message)


@contextmanager
def memory_error_explained(training: Training, batch: Batch) -> Iterator[None]:
    """Turn an out-of-memory error into one that names the batch and the settings to change."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        settings = training.settings
        size = "batch_sentences" if settings.batch_sentences else "batch_tokens"
        raise TrainingError(
            f"out of memory on {batch}; lower train.{size} (now {getattr(settings, size)}) and raise "
            "train.grad_accum to keep the effective batch size"
        ) from None
