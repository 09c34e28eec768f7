"""What can go wrong through no fault of the code, as one small family of exceptions.

RegardError           the command ends with its one sentence and exit code 2
├── RecipeError       a recipe's key, value or file is not what it may be
├── DiskError         a file cannot be written: the disk is full or read-only; exit code 1
├── TrainingError     a training cannot go on: not a finite loss, no memory; exit code 1
├── Stopped           a training was asked to stop, and saved; exit code 128 + the signal
├── CorpusError       a corpus file cannot be read as text or as pairs (regard.data.lines)
├── DownloadError     no mirror gave the file (regard.data.download)
└── ArchiveError      an archive is damaged or hostile (regard.data.archive)
"""

import difflib
from collections.abc import Iterable


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


class Stopped(RegardError):
    """A training that was asked to stop."""

    def __init__(self, sentence: str, signal: int) -> None:
        super().__init__(sentence)
        self.code = 128 + signal


def nearest(given: str, choices: Iterable[str]) -> str | None:
    """The choice that was probably meant, if one is near."""
    by_lower_case = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(given.casefold(), by_lower_case, n=1)
    return by_lower_case[close[0]] if close else None


def did_you_mean(given: str, choices: Iterable[str]) -> str:
    """The end of a sentence: `; did you mean train`, or nothing where no choice is near."""
    near = nearest(given, choices)
    return f"; did you mean {near}" if near else ""
