"""Interleaved timing: each round runs every workload once, so slow minutes of the machine affect all alike."""

import statistics
import time
from collections.abc import Callable, Sequence

Rounds = list[list[float]]
"""Seconds of each workload in each round."""


def timed_rounds(works: Sequence[Callable[[], object]], rounds: int, at_least: float = 0.0) -> Rounds:
    """Seconds of one call of each workload, round by round, after one call to warm up.

    Every other round runs them in reverse order. Within a round a workload is called until `at_least` seconds
    have passed, as batches follow each other in use.
    """
    for work in works:
        work()
    times: Rounds = [[] for _ in works]
    for number in range(rounds):
        order = range(len(works))
        for place in reversed(order) if number % 2 else order:
            calls, start = 0, time.perf_counter()
            while not calls or time.perf_counter() - start < at_least:
                works[place]()
                calls += 1
            times[place].append((time.perf_counter() - start) / calls)
    return times


def speedup(before: Sequence[float], after: Sequence[float]) -> float:
    """Median over the rounds of seconds before / seconds after."""
    return statistics.median(old / new for old, new in zip(before, after, strict=True))
