"""Process settings that training changes and restores: random state, allocator, denormals, garbage collection.

`regard.train` may be called from a notebook or another program, which keeps its own settings.
"""

import gc
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from regard.engine.allocator import tuned_allocator
from regard.engine.openmp import in_every_thread
from regard.training.devices import accelerator, device_module

GC_THRESHOLD = 50_000
"""While training; at Python's default of 700, garbage collection takes 5% of a step."""


@contextmanager
def training_process() -> Iterator[None]:
    """Apply all settings for training within the block."""
    with preserved_rng(), tuned_allocator(), flushed_denormals(), rare_garbage_collection():
        yield


@contextmanager
def preserved_rng() -> Iterator[None]:
    """Restore the random state of Python, numpy and PyTorch, on the CPU and on the accelerator in use."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  # the global state is meant
    cpu = torch.get_rng_state()
    device = accelerator()
    state = None if device is None else device_module(device).get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if device is not None and state is not None:
            device_module(device).set_rng_state(state)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Flush denormal numbers to zero: they are slow, and too small to matter for weights.

    The flag is per thread and inherited by new threads. So it is set and restored in this thread and in its
    OpenMP threads; those started during training would otherwise keep it.
    """
    previous: dict[int, bool] = {}

    def flush() -> None:
        previous[threading.get_ident()] = flushes_denormals()
        torch.set_flush_denormal(True)

    def restore() -> None:
        torch.set_flush_denormal(previous.get(threading.get_ident(), previous[own]))

    own = threading.get_ident()
    in_every_thread(flush)
    try:
        yield
    finally:
        in_every_thread(restore)


def flushes_denormals() -> bool:
    """Whether this thread flushes denormal numbers. PyTorch has no getter; Python's floats are flushed too."""
    half = 0.5
    return sys.float_info.min * half == 0.0


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Collect garbage less often, and skip the objects that exist already.

    Nothing is frozen where the caller has frozen objects, because `gc.unfreeze` would release those too.
    """
    threshold, frozen = gc.get_threshold(), gc.get_freeze_count()
    if not frozen:
        gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *threshold[1:])
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        if not frozen:
            gc.unfreeze()
