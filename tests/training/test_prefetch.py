"""Batches prepared ahead: in order, no further than asked, and nothing left running."""

import threading
import time
from collections.abc import Iterator

import pytest

from regard.training.prefetch import ahead


def test_items_come_in_order_and_prepared() -> None:
    with ahead(iter(range(100)), lambda number: number * 2, depth=3) as items:
        assert list(items) == [number * 2 for number in range(100)]


def test_no_more_are_prepared_than_asked_for() -> None:
    prepared: list[int] = []

    def endless() -> Iterator[int]:
        number = 0
        while True:
            yield (number := number + 1)

    with ahead(endless(), lambda number: prepared.append(number) or number, depth=4) as items:
        assert next(items) == 1
        time.sleep(0.3)
        assert len(prepared) <= 1 + 4 + 1  # taken, waiting, and the one in hand
    assert not [thread for thread in threading.enumerate() if thread.name == "batches ahead"]


def test_what_goes_wrong_is_raised_where_the_item_is_taken() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    with ahead(broken(), lambda number: number) as items:
        assert next(items) == 1
        with pytest.raises(OSError, match="the disk is gone"):
            next(items)


def test_leaving_early_stops_the_thread() -> None:
    with ahead(iter(range(10**9)), lambda number: number, depth=2) as items:
        next(items)
    assert not [thread for thread in threading.enumerate() if thread.name == "batches ahead"]
