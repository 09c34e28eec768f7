"""Ctrl-C and SIGTERM while a training runs: the first is a request to save and stop."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ASKING = (signal.SIGINT, signal.SIGTERM)


class Asked:
    """Remembers the signal that came; a second one ends the process as it always would."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> int | None:
        return self.signal

    def note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.signal = number


@contextmanager
def asked_to_stop() -> Iterator[Asked]:
    """Within the block a signal is noted instead of ending the process; only the main thread can do that."""
    asked = Asked()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    # A handler that was not installed from Python is None here: it could not be restored, so it stays.
    ours = [number for number in ASKING if signal.getsignal(number) is not None]
    before = {number: signal.signal(number, asked.note) for number in ours}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
