"""Dynamic batching: a bounded queue before a model; its threads run items of several requests in one batch."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from fastapi import Request

MAX_DELAY = 0.002
"""Seconds a batch waits to fill, if the one before it held several requests; a lone client is never delayed."""


class QueueFull(Exception):
    """A request exceeds the free capacity of the queue; `retry_after` is the estimated wait in seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class QueueClosed(Exception):
    """The server is stopping: accepted requests are answered, new ones are refused."""


class ClientDisconnected(Exception):
    """The client closed its connection before the answer."""


class Job:
    """The items of one request in the queue, and their results so far."""

    def __init__(self, batch_key: Hashable, items: Sequence[Any]) -> None:
        self.batch_key, self.items = batch_key, items
        self.taken = 0
        """Items that a worker thread has taken; they are taken in order."""
        self.loop = asyncio.get_running_loop()
        self._results: dict[int, Any] = {}
        self._changed = asyncio.Event()
        self._cancelled = False

    async def results(self) -> AsyncIterator[Any]:
        """The results in the order of the items, each as soon as it and those before it are computed.

        Raises:
            ClientDisconnected: the job was cancelled.
            Exception: the result of an item, if it is an exception.
        """
        for index in range(len(self.items)):
            while index not in self._results:
                if self._cancelled:
                    raise ClientDisconnected
                self._changed.clear()
                await self._changed.wait()
            result = self._results.pop(index)
            if isinstance(result, Exception):
                raise result
            yield result

    def set_result(self, index: int, result: Any) -> None:
        self._results[index] = result
        self._changed.set()

    def cancel(self) -> None:
        """Make `results` raise ClientDisconnected."""
        self._cancelled = True
        self._changed.set()


@dataclass(frozen=True)
class Batch:
    """Items with one batch key, each as its job and its index there."""

    key: Any
    slots: list[tuple[Job, int]]

    def items(self) -> list[Any]:
        return [job.items[index] for job, index in self.slots]

    def set_results(self, results: Sequence[Any]) -> None:
        """Hand each job its results, in the event loop that waits for them."""
        pairs = list(zip(self.slots, results, strict=True))

        def deliver() -> None:
            for (job, index), result in pairs:
                job.set_result(index, result)

        with suppress(RuntimeError):  # the event loop is closed: no client waits
            self.slots[0][0].loop.call_soon_threadsafe(deliver)


class BatchQueue:
    """Runs the items of many requests in batches; a batch holds items with the same batch key.

    Requests are served round-robin, item by item, so that a long one does not delay a short one.

    Args:
        run_batch: `run_batch(batch_key, items)` returns a result per item, or an exception in its place. It is
            called in each of the worker threads, each time with a batch of its own.
        capacity: Items that may wait.
        max_batch: Items per batch.
        threads: Worker threads.
        on_batch: Called with the size of every finished batch.
        cost: Time of an item with this batch key relative to a usual one: batches of expensive items are
            smaller, since other requests wait until they end.
    """

    def __init__(
        self,
        run_batch: Callable[[Any, list[Any]], Sequence[Any]],
        *,
        capacity: int,
        max_batch: int,
        threads: int = 1,
        on_batch: Callable[[int], object] = lambda size: None,
        cost: Callable[[Any], float] = lambda batch_key: 1.0,
    ) -> None:
        self.run_batch, self.capacity, self.max_batch = run_batch, capacity, max_batch
        self.on_batch, self.cost = on_batch, cost
        self.waiting = 0
        """Items that no thread has taken yet."""
        self._jobs: list[Job] = []
        self._condition = threading.Condition()
        self._closed = False
        self._shared = False  # whether the last batch held several requests
        self._idle = 0  # threads without a batch
        self._rate = float(max_batch)  # items per second and thread, moving average
        self._threads = [
            threading.Thread(target=self._run, name=f"model {index}", daemon=True) for index in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, batch_key: Hashable, items: Sequence[Any]) -> Job:
        """Enqueue all items or none; must be called in an event loop.

        Raises:
            QueueFull: the items exceed the free capacity.
            QueueClosed: `close` was called.
        """
        job = Job(batch_key, items)
        with self._condition:
            if self._closed:
                raise QueueClosed("the server is stopping; requests accepted before are still answered")
            if self.waiting + len(items) > self.capacity:
                seconds = self._expected_seconds()
                raise QueueFull(
                    f"the queue is full: {self.waiting} sentences waiting, capacity {self.capacity}; "
                    f"try again in {seconds} s",
                    seconds,
                )
            if items:
                self._jobs.append(job)
                self.waiting += len(items)
                self._condition.notify()
        return job

    def cancel(self, job: Job) -> None:
        """Drop the items of a job that no thread has taken yet."""
        job.cancel()
        with self._condition:
            if job in self._jobs:
                self._jobs.remove(job)
                self.waiting -= len(job.items) - job.taken

    def close(self) -> None:
        """Refuse new jobs; waiting ones are still run."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def join(self) -> None:
        """After `close`: wait until all jobs are finished."""
        for thread in self._threads:
            thread.join()

    def _expected_seconds(self) -> int:
        """Time until the waiting items are finished, between a second and a minute."""
        return min(60, max(1, math.ceil(self.waiting / self._rate / len(self._threads))))

    def _run(self) -> None:
        while (batch := self._take()) is not None:
            start = time.perf_counter()
            results = self._results(batch.key, batch.items())
            rate = len(batch.slots) / max(time.perf_counter() - start, 1e-6)
            self._rate += 0.2 * (rate - self._rate)
            self.on_batch(len(batch.slots))
            batch.set_results(results)

    def _results(self, batch_key: Any, items: list[Any]) -> Sequence[Any]:
        """A result per item; if the batch fails, items run one by one, so that only the faulty one fails."""
        try:
            return self.run_batch(batch_key, items)
        except Exception as error:
            if len(items) == 1:
                return [error]
            return [self._results(batch_key, [item])[0] for item in items]

    def _take(self) -> Batch | None:
        """The next batch, as soon as there is one; None when the queue is closed and empty."""
        with self._condition:
            self._idle += 1
            try:
                while True:
                    while not self._jobs and not self._closed:
                        self._condition.wait()
                    if self._shared and not self._closed:
                        self._wait_to_fill()
                    if self._jobs:
                        return self._next_batch()
                    if self._closed:
                        return None
            finally:
                self._idle -= 1

    def _wait_to_fill(self) -> None:
        """Wait up to `MAX_DELAY` for enough items to fill a batch."""
        deadline = time.monotonic() + MAX_DELAY
        while self.waiting < self.max_batch and (seconds := deadline - time.monotonic()) > 0:
            self._condition.wait(seconds)

    def _next_batch(self) -> Batch:
        """Items with the first job's batch key, from each such job in turn; unfinished jobs go to the back.

        The waiting items are divided among the idle threads.
        """
        batch_key = self._jobs[0].batch_key
        affordable = max(1, int(self.max_batch / max(1.0, self.cost(batch_key))))
        size = min(affordable, -(-self.waiting // self._idle))
        jobs = [job for job in self._jobs if job.batch_key == batch_key][:size]
        self._shared = len(jobs) > 1
        slots: list[tuple[Job, int]] = []
        unfinished = jobs
        while unfinished and len(slots) < size:
            for job in unfinished[: size - len(slots)]:
                slots.append((job, job.taken))
                job.taken += 1
            unfinished = [job for job in unfinished if job.taken < len(job.items)]
        in_batch = set(map(id, jobs))
        self._jobs = [job for job in self._jobs if id(job) not in in_batch] + unfinished
        self.waiting -= len(slots)
        if self._jobs:
            self._condition.notify()
        return Batch(batch_key, slots)


@asynccontextmanager
async def cancel_on_disconnect(job: Job, queue: BatchQueue, request: Request) -> AsyncIterator[None]:
    """Wait for a job's results within the block.

    The job is cancelled when the client disconnects, which raises ClientDisconnected in the block, and on exit.
    """
    watcher = asyncio.create_task(_cancel_at_disconnect(request, job))
    try:
        yield
    finally:
        watcher.cancel()
        queue.cancel(job)


async def _cancel_at_disconnect(request: Request, job: Job) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.cancel()
