"""glibc's allocator, tuned for many large blocks; its settings are restored afterwards."""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

HUGE_PAGES = 14
"""MADV_HUGEPAGE (mman-common.h): pages of 2 MiB, for fewer misses of the translation lookaside buffer."""
PAGE = 2 << 20
ADVISED = 1 << 30
"""Bytes of the heap for which huge pages are requested."""
KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Setting:
    """A parameter of mallopt(3).

    glibc raises its two thresholds when large blocks are freed, up to 32 and 64 MiB. Any call of mallopt
    disables this permanently, and the values cannot be read. So they are restored to these maxima, which a
    process that computes with tensors soon reaches; at the static defaults of 128 KiB, PyTorch ran at a third
    of its speed.
    """

    number: int
    tunable: str
    default: int
    """Value without dynamic thresholds: if the environment sets one of these parameters."""
    dynamic: int
    """Value with dynamic thresholds, in a process that has freed a large block."""
    tuned: int | None = None


SETTINGS = (
    Setting(-4, "mmap_max", 65_536, 65_536, tuned=0),
    Setting(-3, "mmap_threshold", 128 * KIB, 32 * MIB),
    Setting(-1, "trim_threshold", 128 * KIB, 64 * MIB, tuned=2**31 - 1),
    Setting(-2, "top_pad", 128 * KIB, 128 * KIB, tuned=64 * MIB),
)

_lock = threading.Lock()
_users = 0


@contextmanager
def tuned_allocator() -> Iterator[None]:
    """Context manager that keeps freed memory in the process, in huge pages.

    glibc returns large blocks to the kernel, and page faults bring them back in every batch, which costs up to
    a third of the time. On exit free memory is returned and the settings are restored (see `Setting`). Contexts
    may be nested, and overlap in several threads: the last one restores. Without glibc it does nothing.
    """
    global _users
    library = glibc()
    if library is None:
        yield
        return
    with _lock:
        _users += 1
        if _users == 1:
            apply_settings(library)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                restore_settings(library)


def glibc() -> ctypes.CDLL | None:
    """The C library of this process if it has mallopt(3), else None."""
    try:
        library = ctypes.CDLL(None)
        library.mallopt, library.malloc_trim  # noqa: B018  # raises AttributeError in other C libraries
    except (OSError, AttributeError, TypeError):
        return None
    return library


def apply_settings(library: ctypes.CDLL) -> None:
    for setting in SETTINGS:
        if setting.tuned is not None:
            library.mallopt(setting.number, setting.tuned)
    advise_huge_pages(library)


def restore_settings(library: ctypes.CDLL) -> None:
    chosen = environment_settings()
    for setting in SETTINGS:
        default = setting.default if chosen else setting.dynamic
        library.mallopt(setting.number, chosen.get(setting.tunable, default))
    library.malloc_trim(ctypes.c_size_t(0))


def environment_settings() -> dict[str, int]:
    """Parameters set in the environment: `MALLOC_TOP_PAD_`, or `glibc.malloc.top_pad` in `GLIBC_TUNABLES`."""
    tunables = dict(entry.partition("=")[::2] for entry in os.environ.get("GLIBC_TUNABLES", "").split(":"))
    chosen = {}
    for setting in SETTINGS:
        tunable = tunables.get(f"glibc.malloc.{setting.tunable}", "")
        value = os.environ.get(f"MALLOC_{setting.tunable.upper()}_", tunable)
        if value.isdecimal():
            chosen[setting.tunable] = int(value)
    return chosen


def advise_huge_pages(library: ctypes.CDLL) -> None:
    """Request huge pages for the part of the heap that later blocks use, by a block that is freed untouched."""
    library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.free.argtypes = [ctypes.c_void_p]
    block = library.malloc(ADVISED)
    if block:
        first = -(-block // PAGE) * PAGE
        whole_pages = (block + ADVISED - first) // PAGE * PAGE
        library.madvise(first, whole_pages, HUGE_PAGES)  # a kernel without huge pages ignores it
        library.free(block)
