"""Interleaved timing: each round calls every workload, so that slow minutes of the machine affect all alike."""

import statistics
import time
from collections.abc import Callable, Sequence


def timed_rounds(
    workloads: Sequence[Callable[[], object]], rounds: int, min_seconds: float = 0.0
) -> list[list[float]]:
    """Seconds per call of each workload in each round, after one warm-up call.

    Every other round has the reverse order. Within a round a workload is called until `min_seconds` have
    passed, as batches follow each other in use.
    """
    for workload in workloads:
        workload()
    times: list[list[float]] = [[] for _ in workloads]
    for number in range(rounds):
        order = range(len(workloads))
        for index in reversed(order) if number % 2 else order:
            calls, start = 0, time.perf_counter()
            while not calls or time.perf_counter() - start < min_seconds:
                workloads[index]()
                calls += 1
            times[index].append((time.perf_counter() - start) / calls)
    return times


def speedup(before: Sequence[float], after: Sequence[float]) -> float:
    """Median over the rounds of seconds before / seconds after."""
    return statistics.median(old / new for old, new in zip(before, after, strict=True))
