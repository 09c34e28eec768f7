"""Distributed training: torchrun starts the processes, gradients are summed, the first process writes.

Every process has the same model and takes its share of the rows of every batch, so an update equals that of a
single process on the same batch. Numbers that all must agree on are exchanged between CPUs, so that no GPU is
synchronized for them.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from regard.errors import RegardError, TrainingError
from regard.training.devices import choose_device

TIMEOUT = timedelta(days=1)
"""Of collective operations, which wait while the first process validates; a crash ends them at once."""


@dataclass(frozen=True)
class World:
    """Rank of this process and number of processes of the training run; a single one without torchrun."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which logs and writes."""
        return self.rank == 0

    def all_reduce_sum(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, in one exchange."""
        if self.size == 1:
            return
        originals = list(tensors)
        flat = torch.cat([tensor.flatten() for tensor in originals])
        with failure_reported():
            distributed.all_reduce(flat)
        start = 0
        for tensor in originals:
            tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()

    def all_reduce_max(self, *numbers: float) -> list[float]:
        """The maximum of each number over all processes."""
        if self.size == 1:
            return list(numbers)
        values = torch.tensor(numbers, dtype=torch.float64)
        with failure_reported():
            distributed.all_reduce(values, distributed.ReduceOp.MAX)
        return [float(value) for value in values]

    def broadcast(self, *numbers: float) -> list[float]:
        """The first process's numbers, on all processes."""
        if self.size == 1:
            return list(numbers)
        values = torch.tensor(numbers, dtype=torch.float64)
        with failure_reported():
            distributed.broadcast(values, 0)
        return [float(value) for value in values]

    def barrier(self) -> None:
        """Wait until all processes are here."""
        self.all_reduce_max(0.0)


def world_size() -> int:
    """Number of processes that torchrun has started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def process_group(device: str = "auto") -> Iterator[World]:
    """Join the processes that torchrun started for the block; without torchrun, this process alone.

    Args:
        device: As for `choose_device`. Each process takes the accelerator of its local rank.

    Raises:
        RegardError: There is no such device, or all processes would share one.
    """
    if world_size() == 1:
        yield World()
        return
    backend = "gloo"
    chosen = choose_device(device)
    if chosen.type != "cpu" and ":" in device:
        raise RegardError(
            f'train.device: all {world_size()} processes would compute on "{device}"; '
            f'give "{device.split(":")[0]}", and each process takes its own'
        )
    if chosen.type != "cpu":
        torch.accelerator.set_device_index(int(os.environ.get("LOCAL_RANK", "0")))
        backend = f"cpu:gloo,{chosen.type}:{distributed.get_default_backend_for_device(chosen.type)}"
    with failure_reported():
        store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
        # torchrun keeps the store across restarts, with the addresses of dead processes in it.
        store = PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    try:
        yield World(rank, size)
    finally:
        distributed.destroy_process_group()


def is_restart() -> bool:
    """Whether torchrun has restarted this training run after a process of it died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def failure_reported() -> Iterator[None]:
    """Report a collective operation that fails as the end of another process."""
    try:
        yield
    except RuntimeError as problem:
        reason = str(problem).splitlines()[0]
        raise TrainingError(f"another process of this training run has ended ({reason})") from None
