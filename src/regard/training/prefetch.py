"""Prefetching: prepare the next batches in a background thread."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Prepared = TypeVar("Prepared")

DEPTH = 64
"""Batches prepared in advance: enough to sort or resample the next pool while these are consumed."""


@contextmanager
def prefetch(
    items: Iterator[Item], prepare: Callable[[Item], Prepared], depth: int = DEPTH
) -> Iterator[Iterator[Prepared]]:
    """Iterate over the prepared items in order; an exception of the thread is raised at its item.

    Args:
        items: Consumed in the background thread.
        prepare: Called on each item in the background thread.
        depth: Maximum number of items prepared in advance.
    """
    results: queue.Queue[tuple[Prepared | None, BaseException | None]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(result: tuple[Prepared | None, BaseException | None]) -> None:
        while not stopped.is_set():
            try:
                results.put(result, timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((prepare(item), None))
                if stopped.is_set():
                    return
            put((None, StopIteration()))
        except BaseException as error:
            put((None, error))

    def prepared_items() -> Iterator[Prepared]:
        while True:
            item, error = results.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            assert item is not None
            yield item

    thread = threading.Thread(target=work, name="prefetch", daemon=True)
    thread.start()
    try:
        yield prepared_items()
    finally:
        stopped.set()
        thread.join()
