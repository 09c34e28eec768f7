"""What training changes in its process and restores: random state, allocator, denormals, garbage collection.

`regard.train` may be called from a notebook or another program, which goes on with what it had.
"""

import ctypes
import gc
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from regard.training.memory import tuned_allocator

OBJECTS = 50_000
"""gc threshold while training: at Python's own 700, garbage collection took 5% of a step."""


@contextmanager
def training_process() -> Iterator[None]:
    """All settings for training, while the block lasts."""
    with preserved_rng(), tuned_allocator(), flushed_denormals(), rare_garbage_collection():
        yield


@contextmanager
def preserved_rng() -> Iterator[None]:
    """Restore the global random state of Python, numpy and PyTorch: of the CPU, and of the GPU in use."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  # the global state is what it is about
    cpu = torch.get_rng_state()
    gpu = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if gpu is not None:
            torch.cuda.set_rng_state(gpu)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Flush denormal numbers to zero, which are slow and too small to matter for weights.

    The flag belongs to a thread, and a new thread inherits it. So it is set and restored in this thread and in
    the OpenMP threads that compute for it: those started while training would otherwise keep it for good.
    """
    before: dict[int, bool] = {}

    def flush() -> None:
        before[threading.get_ident()] = flushes_denormals()
        torch.set_flush_denormal(True)

    def restore() -> None:
        torch.set_flush_denormal(before.get(threading.get_ident(), before[own]))

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


def in_every_thread(work: Callable[[], None]) -> None:
    """Call a function in each OpenMP thread that PyTorch's kernels use from this thread, then in this one.

    The others come first: those that do not exist yet start here, with the flags that this thread has now.
    """
    own = threading.get_ident()

    def in_others(_: int | None) -> None:
        if threading.get_ident() != own:
            work()

    body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(in_others)
    try:
        parallel = ctypes.CDLL(torch._C.__file__).GOMP_parallel
        parallel.argtypes = [type(body), ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        parallel(body, None, torch.get_num_threads(), 0)
    except (OSError, AttributeError):  # another OpenMP, or none: this thread alone
        pass
    work()


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Collect garbage less often, and not among the objects that exist already.

    What the caller has frozen stays frozen: `gc.unfreeze` would release it too, so nothing more is frozen then.
    """
    threshold, frozen = gc.get_threshold(), gc.get_freeze_count()
    if not frozen:
        gc.freeze()
    gc.set_threshold(OBJECTS, *threshold[1:])
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        if not frozen:
            gc.unfreeze()
