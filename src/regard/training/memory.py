"""The process's memory, set up for training: large blocks are kept, tiny numbers are zero."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# glibc's names for its settings (malloc.h).
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4


@contextmanager
def settled() -> Iterator[None]:
    """Keep freed blocks in the process, and flush denormal numbers as long as the block lasts.

    glibc gives large blocks back to the kernel and faults them in again at every step, which costs up to a
    third of a training step. Where there is no glibc, nothing happens. Denormals are flushed for the training
    alone: whoever called it may count on them.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        pass
    else:
        mallopt(MMAP_MAX, 0)
        mallopt(TRIM_THRESHOLD, 2**31 - 1)
        mallopt(TOP_PAD, 64 * 2**20)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
