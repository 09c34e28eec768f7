"""What can go wrong through no fault of the code, as one small family of exceptions.

RegardError           the command ends with its one sentence and exit code 2
├── RecipeError       a recipe's key, value or file is not what it may be
├── DiskError         a file cannot be written: the disk is full or read-only; exit code 1
├── TrainingError     a training cannot go on: not a finite loss, no memory; exit code 1
├── OutOfMemory       memory did not suffice; exit code 1
├── Stopped           a training was asked to stop, and saved; exit code 128 + the signal
├── CorpusError       a corpus file cannot be read as text or as pairs (regard.data.text_files)
├── DownloadError     no mirror gave the file (regard.data.download)
└── ArchiveError      an archive is damaged or hostile (regard.data.archive)
"""

import difflib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class RegardError(Exception):
    """A mistake a user can mend; its text is one sentence that says how."""

    code = 2
    """What the command exits with."""


class RecipeError(RegardError):
    """A recipe that cannot be used: the sentence names the key, the value and what is allowed."""


class DiskError(RegardError):
    """Something could not be written, through no fault of what was asked."""

    code = 1


class TrainingError(RegardError):
    """A training that cannot go on; what it had reached is kept."""

    code = 1


class OutOfMemory(RegardError):
    """Memory did not suffice; the sentence says what to lower."""

    code = 1


class Stopped(RegardError):
    """A training that was asked to stop."""

    def __init__(self, sentence: str, signal: int) -> None:
        super().__init__(sentence)
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
"""How PyTorch, the C++ library, the dynamic loader and Python say it: a thread needs memory for its stack."""


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether an exception means that memory did not suffice: of Python, PyTorch, the system or its loader."""
    if isinstance(problem, MemoryError) or type(problem).__name__ == "OutOfMemoryError":
        return True
    if isinstance(problem, OSError):
        return problem.errno == errno.ENOMEM
    if not isinstance(problem, RuntimeError | ImportError):
        return False
    return any(words in str(problem).lower() for words in OUT_OF_MEMORY)


@contextmanager
def memory_hint(hint: str) -> Iterator[None]:
    """Within the block, a lack of memory is raised as `OutOfMemory`, with a hint: what to lower."""
    try:
        yield
    except Exception as problem:
        if not is_out_of_memory(problem):
            raise
        raise OutOfMemory(f"Out of memory. {hint}") from None


def nearest(given: str, choices: Iterable[str]) -> str | None:
    """The choice that was probably meant, if one is near."""
    by_lower_case = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(given.casefold(), by_lower_case, n=1)
    return by_lower_case[close[0]] if close else None


def did_you_mean(given: str, choices: Iterable[str]) -> str:
    """The end of a sentence: `; did you mean train`, or nothing where no choice is near."""
    near = nearest(given, choices)
    return f"; did you mean {near}" if near else ""
