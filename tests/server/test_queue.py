"""The batch queue: batches by key, round-robin order, limits, cancellation, errors and shutdown."""

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from regard.server.queue import BatchQueue, ClientDisconnected, Job, QueueClosed, QueueFull


class Blocked:
    """Doubles numbers once `go` is set, and records its batches."""

    def __init__(self) -> None:
        self.go, self.batches = threading.Event(), []
        self.started = threading.Event()

    def __call__(self, batch_key: str, items: list[int]) -> Sequence[object]:
        self.batches.append((batch_key, items))
        self.started.set()
        assert self.go.wait(10)
        if 17 in items:
            raise KeyError("seventeen")
        return [ValueError("thirteen") if item == 13 else 2 * item for item in items]


async def started(work: Blocked) -> None:
    await asyncio.to_thread(work.started.wait, 10)


async def results(job: Job) -> list[int]:
    return [result async for result in job.results()]


def run_scenario(
    scenario: Callable[[BatchQueue, Blocked], object],
    *,
    capacity: int = 100,
    max_batch: int = 8,
    threads: int = 1,
    **more,
) -> Blocked:
    """Run a coroutine function with a queue, then close the queue."""

    async def run() -> Blocked:
        work = Blocked()
        queue = BatchQueue(work, capacity=capacity, max_batch=max_batch, threads=threads, **more)
        try:
            await scenario(queue, work)
        finally:
            work.go.set()
            queue.close()
            await asyncio.to_thread(queue.join)
        return work

    return asyncio.run(run())


def test_waiting_requests_share_a_batch_and_get_their_own_results() -> None:
    async def scenario(queue: BatchQueue, work: Blocked) -> None:
        first = queue.submit("a", [1])
        await started(work)
        rest = [queue.submit("a", [number, -number]) for number in (2, 3)]
        work.go.set()
        assert await results(first) == [2]
        assert [await results(job) for job in rest] == [[4, -4], [6, -6]]

    assert run_scenario(scenario).batches == [("a", [1]), ("a", [2, 3, -2, -3])]


def test_a_batch_has_one_key() -> None:
    async def scenario(queue: BatchQueue, work: Blocked) -> None:
        queue.submit("a", [1])
        await started(work)
        jobs = [queue.submit(batch_key, [number]) for number, batch_key in enumerate("abab")]
        work.go.set()
        assert [await results(job) for job in jobs] == [[0], [2], [4], [6]]

    assert run_scenario(scenario).batches == [("a", [1]), ("a", [0, 2]), ("b", [1, 3])]


def test_a_long_request_does_not_delay_a_short_one() -> None:
    async def scenario(queue: BatchQueue, work: Blocked) -> None:
        queue.submit("a", [0])
        await started(work)
        long = queue.submit("a", list(range(20, 40)))
        short = queue.submit("a", [100])
        other = queue.submit("b", [200])
        work.go.set()
        assert await results(short) == [200]
        assert await results(other) == [400]
        assert await results(long) == list(range(40, 80, 2))

    batches = run_scenario(scenario, max_batch=4).batches
    assert batches[1] == ("a", [20, 100, 21, 22])
    assert batches[2] == ("b", [200])  # unfinished jobs go to the back


def test_expensive_items_form_smaller_batches_between_others() -> None:
    async def scenario(queue: BatchQueue, work: Blocked) -> None:
        queue.submit("cheap", [0])
        await started(work)
        long = queue.submit("costly", list(range(20, 26)))
        costliest = queue.submit("costliest", [50, 51])
        short = queue.submit("cheap", [100, 101, 102])
        work.go.set()
        assert await results(short) == [200, 202, 204]
        assert await results(costliest) == [100, 102]
        assert await results(long) == list(range(40, 52, 2))

    costs = {"cheap": 0.5, "costly": 4.0, "costliest": 1000.0}
    assert run_scenario(scenario, max_batch=8, cost=costs.__getitem__).batches == [
        ("cheap", [0]),
        ("costly", [20, 21]),
        ("costliest", [50]),
        ("cheap", [100, 101, 102]),
        ("costly", [22, 23]),
        ("costliest", [51]),
        ("costly", [24, 25]),
    ]


def test_a_full_queue_refuses_jobs_with_a_retry_time() -> None:
    async def scenario(queue: BatchQueue, work: Blocked) -> None:
        queue.submit("a", [0])
        await started(work)
        accepted = queue.submit("a", [1, 2, 3])
        with pytest.raises(QueueFull, match="3 sentences waiting, capacity 4; try again in 1 s") as caught:
            queue.submit("a", [4, 5])
        assert caught.value.retry_after == 1
        assert queue.waiting == 3
        queue.submit("a", [4])
        work.go.set()
        assert await results(accepted) == [2, 4, 6]
        assert await results(queue.submit("a", [7])) == [14]

    assert [item for _, items in run_scenario(scenario, capacity=4).batches for item in items] == [
        0,
        1,
        4,
        2,
        3,
        7,
    ]


def test_cancelled_items_are_not_run() -> None:
    async def scenario(queue: BatchQueue, work: Blocked) -> None:
        queue.submit("a", [0])
        await started(work)
        cancelled = queue.submit("a", [1, 2])
        other = queue.submit("a", [3])
        queue.cancel(cancelled)
        assert queue.waiting == 1
        with pytest.raises(ClientDisconnected):
            await results(cancelled)
        work.go.set()
        assert await results(other) == [6]

    assert run_scenario(scenario).batches == [("a", [0]), ("a", [3])]


def test_an_error_affects_only_its_own_request() -> None:
    async def scenario(queue: BatchQueue, work: Blocked) -> None:
        work.go.set()
        good, bad = queue.submit("a", [1, 2]), queue.submit("a", [13])
        assert await results(good) == [2, 4]
        with pytest.raises(ValueError, match="thirteen"):
            await results(bad)
        good, bad = queue.submit("a", [3, 4]), queue.submit("a", [17])
        assert await results(good) == [6, 8]
        with pytest.raises(KeyError, match="seventeen"):
            await results(bad)
        assert await results(queue.submit("a", [])) == []

    run_scenario(scenario)


def test_closing_finishes_accepted_jobs() -> None:
    async def scenario(queue: BatchQueue, work: Blocked) -> None:
        first, second = queue.submit("a", [1]), queue.submit("b", [2, 3])
        queue.close()
        with pytest.raises(QueueClosed):
            queue.submit("a", [4])
        work.go.set()
        assert await results(first) == [2]
        assert await results(second) == [4, 6]

    run_scenario(scenario)


def test_idle_threads_share_the_waiting_items() -> None:
    async def scenario(queue: BatchQueue, work: Blocked) -> None:
        many = queue.submit("a", [1, 2, 3, 4, 5])
        await until(lambda: len(work.batches) == 2)  # both threads at once: neither is finished
        more = queue.submit("a", [6, 7])
        work.go.set()
        assert await results(many) == [2, 4, 6, 8, 10]
        assert await results(more) == [12, 14]

    batches = run_scenario(scenario, threads=2).batches
    assert sorted(items for _, items in batches[:2]) == [[1, 2, 3], [4, 5]]
    assert sorted(item for _, items in batches[2:] for item in items) == [6, 7]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)
