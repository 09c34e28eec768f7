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
ROOM = 1 << 30
KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Setting:
    """A parameter of mallopt(3).

    glibc raises its two thresholds as large blocks are freed, up to 32 and 64 MiB. Any call of mallopt ends
    this for good, and their values cannot be read. So they are restored to these ends, where a process that
    computes with tensors soon is; at the static defaults of 128 KiB, PyTorch ran at a third of its speed.
    """

    number: int
    tunable: str
    default: int
    """Without dynamic thresholds: where the environment sets one of these parameters."""
    usual: int
    """With dynamic thresholds, in a process that has freed a large block."""
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
    """Keep freed blocks in the process, in huge pages, while the block lasts.

    glibc returns large blocks to the kernel and faults them in again batch by batch, which costs up to a third
    of the time. Afterwards free memory is returned and the settings are restored (see `Setting`). Blocks may be
    nested, and overlap in several threads: the last one restores. Without glibc nothing happens.
    """
    global _users
    library = glibc()
    if library is None:
        yield
        return
    with _lock:
        _users += 1
        if _users == 1:
            tune(library)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                restore(library)


def glibc() -> ctypes.CDLL | None:
    """The C library of this process, if it is one with mallopt(3)."""
    try:
        library = ctypes.CDLL(None)
        library.mallopt, library.malloc_trim  # noqa: B018  # looked up, and missing elsewhere
    except (OSError, AttributeError, TypeError):
        return None
    return library


def tune(library: ctypes.CDLL) -> None:
    for setting in SETTINGS:
        if setting.tuned is not None:
            library.mallopt(setting.number, setting.tuned)
    advise_room(library)


def restore(library: ctypes.CDLL) -> None:
    chosen = chosen_settings()
    for setting in SETTINGS:
        default = setting.default if chosen else setting.usual
        library.mallopt(setting.number, chosen.get(setting.tunable, default))
    library.malloc_trim(ctypes.c_size_t(0))


def chosen_settings() -> dict[str, int]:
    """Parameters set in the environment: `MALLOC_TOP_PAD_`, or `glibc.malloc.top_pad` in `GLIBC_TUNABLES`."""
    tunables = dict(each.partition("=")[::2] for each in os.environ.get("GLIBC_TUNABLES", "").split(":"))
    chosen = {}
    for setting in SETTINGS:
        tunable = tunables.get(f"glibc.malloc.{setting.tunable}", "")
        value = os.environ.get(f"MALLOC_{setting.tunable.upper()}_", tunable)
        if value.isdecimal():
            chosen[setting.tunable] = int(value)
    return chosen


def advise_room(library: ctypes.CDLL) -> None:
    """Ask for huge pages where blocks will lie: what is allocated and freed here is never touched."""
    library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.free.argtypes = [ctypes.c_void_p]
    block = library.malloc(ROOM)
    if block:
        first = -(-block // PAGE) * PAGE
        whole_pages = (block + ROOM - first) // PAGE * PAGE
        library.madvise(first, whole_pages, HUGE_PAGES)  # a kernel without huge pages ignores it
        library.free(block)
