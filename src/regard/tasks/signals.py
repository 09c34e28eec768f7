"""Ctrl-C and SIGTERM during training: the first signal is a request to save and stop."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Stores the first signal, and returns it when called; a second signal ends the process as by default."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> int | None:
        return self.signal

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.signal = number


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Store a signal within the block instead of ending the process; no effect outside the main thread."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    # A handler that was not installed from Python is None here: it could not be restored, so it stays.
    replaced = [number for number in STOP_SIGNALS if signal.getsignal(number) is not None]
    before = {number: signal.signal(number, request.handle) for number in replaced}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
