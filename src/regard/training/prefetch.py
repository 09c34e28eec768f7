"""What comes next, prepared in another thread while this one computes."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Other = TypeVar("Other")

DEPTH = 64
"""Batches prepared ahead: enough to sort the next pool, or sample its tokens anew, while these are used up."""


@contextmanager
def ahead(
    items: Iterator[Item], prepare: Callable[[Item], Other], depth: int = DEPTH
) -> Iterator[Iterator[Other]]:
    """The items in their order, each prepared, as long as the block lasts; what goes wrong is raised here."""
    waiting: queue.Queue[tuple[Other | None, BaseException | None]] = queue.Queue(depth)
    over = threading.Event()

    def put(entry: tuple[Other | None, BaseException | None]) -> None:
        while not over.is_set():
            try:
                waiting.put(entry, timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((prepare(item), None))
                if over.is_set():
                    return
            put((None, StopIteration()))
        except BaseException as problem:
            put((None, problem))

    def taken() -> Iterator[Other]:
        while True:
            item, problem = waiting.get()
            if isinstance(problem, StopIteration):
                return
            if problem is not None:
                raise problem
            assert item is not None
            yield item

    thread = threading.Thread(target=work, name="batches ahead", daemon=True)
    thread.start()
    try:
        yield taken()
    finally:
        over.set()
        thread.join()
