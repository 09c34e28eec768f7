"""The queue before a model: together what may go together, in turns, bounded, and nothing lost."""

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from regard.server.batcher import Batcher, Closed, Full, Gone, Job


class Slow:
    """Doubles numbers, once it is let go; remembers its batches."""

    def __init__(self) -> None:
        self.go, self.batches = threading.Event(), []
        self.begun = threading.Event()

    def __call__(self, way: str, items: list[int]) -> Sequence[object]:
        self.batches.append((way, items))
        self.begun.set()
        assert self.go.wait(10)
        if 17 in items:
            raise KeyError("seventeen")
        return [ValueError("thirteen") if item == 13 else 2 * item for item in items]


async def begun(work: Slow) -> None:
    await asyncio.to_thread(work.begun.wait, 10)


async def answers(job: Job) -> list[int]:
    return [each async for each in job.answers()]


def story(
    told: Callable[[Batcher, Slow], object], *, room: int = 100, batch: int = 8, threads: int = 1, **more
) -> Slow:
    """Run a coroutine function with a queue, and close the queue after it."""

    async def whole() -> Slow:
        work = Slow()
        queue = Batcher(work, room=room, batch=batch, threads=threads, **more)
        try:
            await told(queue, work)
        finally:
            work.go.set()
            queue.close()
            await asyncio.to_thread(queue.join)
        return work

    return asyncio.run(whole())


def test_what_waits_goes_together_and_every_request_gets_its_own() -> None:
    async def told(queue: Batcher, work: Slow) -> None:
        first = queue.put("a", [1])
        await begun(work)
        rest = [queue.put("a", [number, -number]) for number in (2, 3)]
        work.go.set()
        assert await answers(first) == [2]
        assert [await answers(each) for each in rest] == [[4, -4], [6, -6]]

    assert story(told).batches == [("a", [1]), ("a", [2, 3, -2, -3])]


def test_only_one_way_in_a_batch() -> None:
    async def told(queue: Batcher, work: Slow) -> None:
        queue.put("a", [1])
        await begun(work)
        jobs = [queue.put(way, [number]) for number, way in enumerate("abab")]
        work.go.set()
        assert [await answers(each) for each in jobs] == [[0], [2], [4], [6]]

    assert story(told).batches == [("a", [1]), ("a", [0, 2]), ("b", [1, 3])]


def test_a_long_request_does_not_hold_up_a_short_one() -> None:
    async def told(queue: Batcher, work: Slow) -> None:
        queue.put("a", [0])
        await begun(work)
        long = queue.put("a", list(range(20, 40)))
        short = queue.put("a", [100])
        other = queue.put("b", [200])
        work.go.set()
        assert await answers(short) == [200]
        assert await answers(other) == [400]
        assert await answers(long) == list(range(40, 80, 2))

    batches = story(told, batch=4).batches
    assert batches[1] == ("a", [20, 100, 21, 22])
    assert batches[2] == ("b", [200])  # what had its turn goes to the back


def test_expensive_items_go_in_smaller_batches_and_others_come_between() -> None:
    async def told(queue: Batcher, work: Slow) -> None:
        queue.put("cheap", [0])
        await begun(work)
        long = queue.put("dear", list(range(20, 26)))
        dearest = queue.put("dearest", [50, 51])
        short = queue.put("cheap", [100, 101, 102])
        work.go.set()
        assert await answers(short) == [200, 202, 204]
        assert await answers(dearest) == [100, 102]
        assert await answers(long) == list(range(40, 52, 2))

    costs = {"cheap": 0.5, "dear": 4.0, "dearest": 1000.0}
    assert story(told, batch=8, cost=costs.__getitem__).batches == [
        ("cheap", [0]),
        ("dear", [20, 21]),
        ("dearest", [50]),
        ("cheap", [100, 101, 102]),
        ("dear", [22, 23]),
        ("dearest", [51]),
        ("dear", [24, 25]),
    ]


def test_a_full_queue_takes_nothing_and_says_when_to_come_again() -> None:
    async def told(queue: Batcher, work: Slow) -> None:
        queue.put("a", [0])
        await begun(work)
        kept = queue.put("a", [1, 2, 3])
        with pytest.raises(Full, match="3 sentences wait and there is room for 4; try again in 1 s") as caught:
            queue.put("a", [4, 5])
        assert caught.value.seconds == 1
        assert queue.waiting == 3
        queue.put("a", [4])
        work.go.set()
        assert await answers(kept) == [2, 4, 6]
        assert await answers(queue.put("a", [7])) == [14]

    assert [item for _, items in story(told, room=4).batches for item in items] == [0, 1, 4, 2, 3, 7]


def test_what_nobody_waits_for_is_not_done() -> None:
    async def told(queue: Batcher, work: Slow) -> None:
        queue.put("a", [0])
        await begun(work)
        left = queue.put("a", [1, 2])
        stays = queue.put("a", [3])
        queue.withdraw(left)
        assert queue.waiting == 1
        with pytest.raises(Gone):
            await answers(left)
        work.go.set()
        assert await answers(stays) == [6]

    assert story(told).batches == [("a", [0]), ("a", [3])]


def test_one_items_mistake_is_its_own_requests() -> None:
    async def told(queue: Batcher, work: Slow) -> None:
        work.go.set()
        well, ill = queue.put("a", [1, 2]), queue.put("a", [13])
        assert await answers(well) == [2, 4]
        with pytest.raises(ValueError, match="thirteen"):
            await answers(ill)
        well, ill = queue.put("a", [3, 4]), queue.put("a", [17])
        assert await answers(well) == [6, 8]
        with pytest.raises(KeyError, match="seventeen"):
            await answers(ill)
        assert await answers(queue.put("a", [])) == []

    story(told)


def test_closing_finishes_what_was_accepted() -> None:
    async def told(queue: Batcher, work: Slow) -> None:
        first, second = queue.put("a", [1]), queue.put("b", [2, 3])
        queue.close()
        with pytest.raises(Closed):
            queue.put("a", [4])
        work.go.set()
        assert await answers(first) == [2]
        assert await answers(second) == [4, 6]

    story(told)


def test_threads_that_have_nothing_to_work_share_what_waits() -> None:
    async def told(queue: Batcher, work: Slow) -> None:
        many = queue.put("a", [1, 2, 3, 4, 5])
        await until(lambda: len(work.batches) == 2)  # both at a time: neither was let go
        more = queue.put("a", [6, 7])
        work.go.set()
        assert await answers(many) == [2, 4, 6, 8, 10]
        assert await answers(more) == [12, 14]

    batches = story(told, threads=2).batches
    assert sorted(items for _, items in batches[:2]) == [[1, 2, 3], [4, 5]]
    assert sorted(item for _, items in batches[2:] for item in items) == [6, 7]


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.001)
