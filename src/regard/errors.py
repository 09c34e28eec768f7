"""The exceptions of regard. Commands print their message and exit with their code.

RegardError           base class; exit code 2
├── RecipeError       invalid key, value or file of a recipe
├── DiskError         a file cannot be written: the disk is full or read-only; exit code 1
├── TrainingError     training cannot continue, as with a non-finite loss; exit code 1
├── OutOfMemory       out of memory; exit code 1
├── Stopped           training was stopped by a signal, and saved; exit code 128 + signal number
├── CorpusError       a corpus file cannot be read as text or as pairs (regard.data.text_files)
├── DownloadError     no mirror provides the file (regard.data.download)
└── ArchiveError      an archive is damaged or malicious (regard.data.archive)
"""

import difflib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class RegardError(Exception):
    """An error that the user can fix; the message says how."""

    code = 2
    """Exit code of the command."""


class RecipeError(RegardError):
    """An invalid recipe; the message names the key, the value and what is allowed."""


class DiskError(RegardError):
    """A file cannot be written, for example because the disk is full."""

    code = 1


class TrainingError(RegardError):
    """Training cannot continue; its last checkpoint is kept."""

    code = 1


class OutOfMemory(RegardError):
    """Out of memory; the message says which option to lower."""

    code = 1


class Stopped(RegardError):
    """Training was stopped by a signal."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.code = 128 + signal


OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "bad_alloc",
    "failed to map segment",
    "can't start new thread",
)
"""Parts of out-of-memory messages of PyTorch, the C++ library, the dynamic loader and Python (for threads)."""


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether an exception of Python, PyTorch, the system or its loader means out of memory."""
    if isinstance(problem, MemoryError) or type(problem).__name__ == "OutOfMemoryError":
        return True
    if isinstance(problem, OSError):
        return problem.errno == errno.ENOMEM
    if not isinstance(problem, RuntimeError | ImportError):
        return False
    return any(phrase in str(problem).lower() for phrase in OUT_OF_MEMORY)


@contextmanager
def memory_hint(hint: str) -> Iterator[None]:
    """Raise out-of-memory errors of the block as `OutOfMemory`, with a hint which option to lower."""
    try:
        yield
    except Exception as problem:
        if not is_out_of_memory(problem):
            raise
        raise OutOfMemory(f"out of memory; {hint}") from None


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice most similar to a misspelled name, if any is."""
    by_lower_case = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(name.casefold(), by_lower_case, n=1)
    return by_lower_case[close[0]] if close else None


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """The end of an error message: `; did you mean train`, or empty if no choice is similar."""
    similar = nearest(name, choices)
    return f"; did you mean {similar}" if similar else ""
