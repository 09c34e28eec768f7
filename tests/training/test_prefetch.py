"""Prefetching: items in order, at most `depth` in advance, no thread left running."""

import threading
import time
from collections.abc import Iterator

import pytest

from regard.training.prefetch import prefetch


def test_items_are_prepared_and_in_order() -> None:
    with prefetch(iter(range(100)), lambda number: number * 2, depth=3) as items:
        assert list(items) == [number * 2 for number in range(100)]


def test_no_more_than_depth_items_are_prepared_in_advance() -> None:
    prepared: list[int] = []

    def endless() -> Iterator[int]:
        number = 0
        while True:
            yield (number := number + 1)

    with prefetch(endless(), lambda number: prepared.append(number) or number, depth=4) as items:
        assert next(items) == 1
        time.sleep(0.3)
        assert len(prepared) <= 1 + 4 + 1  # taken, in the queue, and the one that waits for a free slot
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_an_exception_is_raised_where_its_item_is_taken() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    with prefetch(broken(), lambda number: number) as items:
        assert next(items) == 1
        with pytest.raises(OSError, match="the disk is gone"):
            next(items)


def test_leaving_early_stops_the_thread() -> None:
    with prefetch(iter(range(10**9)), lambda number: number, depth=2) as items:
        next(items)
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]
