"""The learning rate as a function of the step: plain functions, no state to save."""

import math
from collections.abc import Callable

Schedule = Callable[[int], float]
"""The rate at a step; the first step is 1."""


def noam(d_model: int, warmup: int, factor: float = 1.0) -> Schedule:
    """factor d_model^-0.5 min(step^-0.5, step warmup^-1.5): the paper's warm-up (section 5.3)."""

    def lr(step: int) -> float:
        return factor / math.sqrt(d_model) * min(1 / math.sqrt(step), step * math.pow(warmup, -1.5))

    return lr


def inverse_sqrt(peak: float, warmup: int) -> Schedule:
    """Straight up to `peak` at step `warmup`, then down with 1 / sqrt(step)."""

    def lr(step: int) -> float:
        return peak * min(step / max(1, warmup), math.sqrt(warmup / step) if warmup else 1 / math.sqrt(step))

    return lr


def constant(peak: float, warmup: int = 0) -> Schedule:
    """Straight up to `peak`, then level."""

    def lr(step: int) -> float:
        return peak * min(1.0, step / warmup) if warmup else peak

    return lr


def cosine(peak: float, warmup: int, steps: int, floor: float = 0.0) -> Schedule:
    """Straight up to `peak`, then half a cosine down to `floor` at step `steps`."""

    def lr(step: int) -> float:
        if step < warmup:
            return peak * step / warmup
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        return floor + (peak - floor) * (1 + math.cos(math.pi * done)) / 2

    return lr


def linear(peak: float, warmup: int, steps: int, floor: float = 0.0) -> Schedule:
    """Straight up to `peak`, then straight down to `floor` at step `steps`."""

    def lr(step: int) -> float:
        if step < warmup:
            return peak * step / warmup
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        return peak + (floor - peak) * done

    return lr
