"""Several processes on one training: torchrun starts them, gradients are added up, the first one writes.

Every process has the same model and takes its share of the rows of every batch, so an update is the one that a
single process would make of the same batch. Nothing here asks a GPU to wait: numbers that all must agree on
travel between processors.
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

PATIENCE = timedelta(days=1)
"""How long the others wait while the first learns a vocabulary or validates; death is noticed at once."""


@dataclass(frozen=True)
class World:
    """This process among those of the training; alone unless torchrun says otherwise."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process speaks and writes for all."""
        return self.rank == 0

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        """Put the sum over all processes into each tensor, in one exchange for each type and device."""
        if self.size == 1:
            return
        together = list(tensors)
        flat = torch.cat([each.flatten() for each in together])
        with others_alive():
            distributed.all_reduce(flat)
        first = 0
        for each in together:
            each.copy_(flat[first : first + each.numel()].view_as(each))
            first += each.numel()

    def largest(self, *numbers: float) -> list[float]:
        """The largest of each number over all processes."""
        if self.size == 1:
            return list(numbers)
        told = torch.tensor(numbers, dtype=torch.float64)
        with others_alive():
            distributed.all_reduce(told, distributed.ReduceOp.MAX)
        return [float(each) for each in told]

    def from_first(self, *numbers: float) -> list[float]:
        """The first process's numbers, on all."""
        if self.size == 1:
            return list(numbers)
        told = torch.tensor(numbers, dtype=torch.float64)
        with others_alive():
            distributed.broadcast(told, 0)
        return [float(each) for each in told]

    def wait(self) -> None:
        """Until all are here."""
        self.largest(0.0)


def processes() -> int:
    """How many torchrun has started; one without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def joined(device: str = "auto") -> Iterator[World]:
    """The processes that torchrun started, as long as the block lasts; without torchrun, this one alone.

    Args:
        device: As for `choose_device`. Each process takes the accelerator of its own number on the machine.

    Raises:
        RegardError: There is no such device, or all processes would share one.
    """
    if processes() == 1:
        yield World()
        return
    backend = "gloo"
    chosen = choose_device(device)
    if chosen.type != "cpu" and ":" in device:
        raise RegardError(
            f'train.device: all {processes()} processes would compute on "{device}"; '
            f'give "{device.split(":")[0]}", and each takes its own'
        )
    if chosen.type != "cpu":
        torch.accelerator.set_device_index(int(os.environ.get("LOCAL_RANK", "0")))
        backend = f"cpu:gloo,{chosen.type}:{distributed.get_default_backend_for_device(chosen.type)}"
    with others_alive():
        store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
        # torchrun keeps its notes when it starts a training again; addresses of dead processes are among them.
        store = PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
    try:
        yield World(rank, size)
    finally:
        distributed.destroy_process_group()


def restarted() -> bool:
    """Whether torchrun has started this training again, after a process of it died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def others_alive() -> Iterator[None]:
    """An exchange that breaks off means that another process has ended."""
    try:
        yield
    except RuntimeError as problem:
        reason = str(problem).splitlines()[0]
        raise TrainingError(f"another process of this training has ended ({reason})") from None
