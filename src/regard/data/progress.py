"""How far a download is, on standard error: one moving line on a terminal, one final line in a log."""

import sys
import time
from types import TracebackType

_EVERY = 0.2  # seconds between two updates of the line


def say(message: str) -> None:
    """A remark for whoever watches; never part of the result."""
    print(message, file=sys.stderr, flush=True)


class Progress:
    """Reports the bytes of one file: ``with Progress(name, total) as progress: progress.at(done)``."""

    def __init__(self, name: str, total: int | None) -> None:
        self._name, self._total = name, total
        self._done = 0
        self._last = 0.0

    def __enter__(self) -> "Progress":
        return self

    def at(self, done: int) -> None:
        self._done = done
        if sys.stderr.isatty() and time.monotonic() - self._last > _EVERY:
            self._last = time.monotonic()
            print(f"\r{self}\x1b[K", end="", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        start, end = ("\r", "\x1b[K") if sys.stderr.isatty() else ("", "")
        say(f"{start}{self}{end}")

    def __str__(self) -> str:
        done = f"{self._done / 1e6:,.1f}"
        if not self._total:
            return f"{self._name}: {done} MB"
        return f"{self._name}: {done} of {self._total / 1e6:,.1f} MB ({self._done / self._total:.0%})"
