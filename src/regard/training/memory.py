"""The process's memory, set up for much work: large blocks are kept; for training, tiny numbers are zero."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# glibc's names for its settings (malloc.h).
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4


HUGE_PAGES = 14
"""Linux's name for the advice (mman-common.h): of 2 MB, so that the processor seldom looks one up."""
PAGE = 2 << 20
ROOM = 1 << 30


def keep_blocks() -> None:
    """Keep freed blocks in the process from now on, in large pages.

    glibc gives large blocks back to the kernel and faults them in again batch by batch, which costs up to a
    third of the time. Where there is no glibc, nothing happens.
    """
    try:
        library = ctypes.CDLL(None)
        mallopt = library.mallopt
    except (OSError, AttributeError):
        return
    mallopt(MMAP_MAX, 0)
    mallopt(TRIM_THRESHOLD, 2**31 - 1)
    mallopt(TOP_PAD, 64 * 2**20)
    advise_room(library)


def advise_room(library: ctypes.CDLL) -> None:
    """Ask for large pages where blocks will lie: of what is taken and given back here, nothing is touched."""
    library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.free.argtypes = [ctypes.c_void_p]
    block = library.malloc(ROOM)
    if block:
        first = -(-block // PAGE) * PAGE
        whole_pages = (block + ROOM - first) // PAGE * PAGE
        library.madvise(first, whole_pages, HUGE_PAGES)  # advice that is not taken harms nothing
        library.free(block)


OBJECTS = 50_000
"""New objects before Python looks for circles among them; at its own 700 that is a twentieth of a step."""


@contextmanager
def settled() -> Iterator[None]:
    """Keep freed blocks in the process, and flush denormal numbers as long as the training lasts.

    Denormals are flushed for the training alone: whoever called it may count on them. So it is with circles of
    objects that nobody refers to, which are looked for less often, and not among what the process began with.
    """
    keep_blocks()
    torch.set_flush_denormal(True)
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
        torch.set_flush_denormal(False)
