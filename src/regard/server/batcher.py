"""The queue before a model: requests wait here, and the model's own threads take them by batches."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

GATHERING = 0.002
"""Seconds a batch waits for company, where the one before it had some; a lone client is not kept waiting."""


class Full(Exception):
    """The queue has no place for a request; after so many seconds it may have."""

    def __init__(self, sentence: str, seconds: int) -> None:
        super().__init__(sentence)
        self.seconds = seconds


class Closed(Exception):
    """The server stops: what was accepted is finished, and nothing new is begun."""


class Gone(Exception):
    """Whoever asked has left."""


class Job:
    """One request's place in the queue: its items, the way they are to be worked, and the answers so far."""

    def __init__(self, way: Hashable, items: Sequence[Any]) -> None:
        self.way, self.items = way, items
        self.taken = 0
        """How many items the model's threads have taken; they take them in order."""
        self.loop = asyncio.get_running_loop()
        self._answers: dict[int, Any] = {}
        self._moved = asyncio.Event()
        self._left = False

    async def answers(self) -> AsyncIterator[Any]:
        """The answers in the order of the items, each as soon as it and those before it are there."""
        for number in range(len(self.items)):
            while number not in self._answers:
                if self._left:
                    raise Gone
                self._moved.clear()
                await self._moved.wait()
            answer = self._answers.pop(number)
            if isinstance(answer, Exception):
                raise answer
            yield answer

    def receive(self, number: int, answer: Any) -> None:
        self._answers[number] = answer
        self._moved.set()

    def leave(self) -> None:
        """No client waits for the answers any more."""
        self._left = True
        self._moved.set()


@dataclass(frozen=True)
class Batch:
    """Items of one way, each by its ticket and its number there."""

    way: Any
    places: list[tuple[Job, int]]

    def items(self) -> list[Any]:
        return [job.items[number] for job, number in self.places]

    def hand_out(self, answers: Sequence[Any]) -> None:
        """Give every ticket its answers, in the event loop that waits for them."""
        pairs = list(zip(self.places, answers, strict=True))

        def deliver() -> None:
            for (job, number), answer in pairs:
                job.receive(number, answer)

        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            self.places[0][0].loop.call_soon_threadsafe(deliver)


class Batcher:
    """Works the items of many requests together, those of the same way in one batch.

    `work(way, items)` gives an answer for each item, or an exception in its place. It runs in so many threads,
    each with a batch of its own: while one works, the other is free to take what comes. Requests take turns
    item by item: a long one holds up no short one. `cost(way)` is the time of an item relative to a usual one:
    of expensive items fewer go in a batch, since other requests wait until it ends.
    """

    def __init__(
        self,
        work: Callable[[Any, list[Any]], Sequence[Any]],
        *,
        room: int,
        batch: int,
        threads: int = 1,
        told: Callable[[int], object] = lambda size: None,
        cost: Callable[[Any], float] = lambda way: 1.0,
    ) -> None:
        self.work, self.room, self.batch, self.told, self.cost = work, room, batch, told, cost
        self.waiting = 0
        """Items that nobody has taken yet."""
        self._tickets: list[Job] = []
        self._change = threading.Condition()
        self._closed = False
        self._company = False
        self._idle = 0  # threads that have nothing to work
        self._rate = float(batch)  # items a second of one thread, lately
        self._threads = [
            threading.Thread(target=self._run, name=f"model {number}", daemon=True) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, way: Hashable, items: Sequence[Any]) -> Job:
        """A place in the queue for all the items, or for none of them; called in an event loop."""
        job = Job(way, items)
        with self._change:
            if self._closed:
                raise Closed("the server is stopping; what it had accepted is being finished")
            if self.waiting + len(items) > self.room:
                raise Full(
                    f"the queue is full: {self.waiting} sentences wait and there is room for {self.room}; "
                    f"try again in {self._seconds()} s",
                    self._seconds(),
                )
            if items:
                self._tickets.append(job)
                self.waiting += len(items)
                self._change.notify()
        return job

    def withdraw(self, job: Job) -> None:
        """Take back what was not begun: nobody waits for it any more."""
        job.leave()
        with self._change:
            if job in self._tickets:
                self._tickets.remove(job)
                self.waiting -= len(job.items) - job.taken

    def close(self) -> None:
        """Accept nothing more; what waits is still worked."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def join(self) -> None:
        """After `close`: wait until all is worked."""
        for thread in self._threads:
            thread.join()

    def _seconds(self) -> int:
        """When it is worth asking again: what waits takes so long, a second at least and a minute at most."""
        return min(60, max(1, math.ceil(self.waiting / self._rate / len(self._threads))))

    def _run(self) -> None:
        while (batch := self._take()) is not None:
            begun = time.perf_counter()
            answers = self._answers(batch.way, batch.items())
            speed = len(batch.places) / max(time.perf_counter() - begun, 1e-6)
            self._rate += 0.2 * (speed - self._rate)
            self.told(len(batch.places))
            batch.hand_out(answers)

    def _answers(self, way: Any, items: list[Any]) -> Sequence[Any]:
        """What the items come to; one that cannot be worked spoils nobody else's."""
        try:
            return self.work(way, items)
        except Exception as problem:
            return [problem] if len(items) == 1 else [self._answers(way, [item])[0] for item in items]

    def _take(self) -> Batch | None:
        """The next batch, as soon as there is one; None when the queue is closed and empty."""
        with self._change:
            self._idle += 1
            try:
                while True:
                    while not self._tickets and not self._closed:
                        self._change.wait()
                    if self._company and not self._closed:
                        self._gather()
                    if self._tickets:
                        return self._next()
                    if self._closed:
                        return None
            finally:
                self._idle -= 1

    def _gather(self) -> None:
        """Wait a little for more, until they fill a batch."""
        until = time.monotonic() + GATHERING
        while self.waiting < self.batch and (left := until - time.monotonic()) > 0:
            self._change.wait(left)

    def _next(self) -> Batch:
        """Items of the first ticket's way, from each ticket in turn; those not finished go to the back.

        What waits is shared with the other threads that have nothing to work.
        """
        way = self._tickets[0].way
        affordable = max(1, int(self.batch / max(1.0, self.cost(way))))
        most = min(affordable, -(-self.waiting // self._idle))
        alike = [job for job in self._tickets if job.way == way][:most]
        self._company = len(alike) > 1
        places: list[tuple[Job, int]] = []
        unfinished = alike
        while unfinished and len(places) < most:
            for job in unfinished[: most - len(places)]:
                places.append((job, job.taken))
                job.taken += 1
            unfinished = [job for job in unfinished if job.taken < len(job.items)]
        served = set(map(id, alike))
        self._tickets = [job for job in self._tickets if id(job) not in served] + unfinished
        self.waiting -= len(places)
        if self._tickets:
            self._change.notify()
        return Batch(way, places)
