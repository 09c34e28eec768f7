"""Learning-rate schedules: functions of the step, without state to save."""

import math
from collections.abc import Callable

from regard.config.training import TrainConfig

Schedule = Callable[[int], float]
"""The learning rate at a step; the first step is 1."""


def noam(d_model: int, warmup: int, factor: float = 1.0) -> Schedule:
    """factor d_model^-0.5 min(step^-0.5, step warmup^-1.5): Vaswani et al. 2017, section 5.3."""

    def lr(step: int) -> float:
        return factor / math.sqrt(d_model) * min(1 / math.sqrt(step), step * math.pow(warmup, -1.5))

    return lr


def inverse_sqrt(peak: float, warmup: int) -> Schedule:
    """Linear warm-up to `peak` at step `warmup`, then decay with 1 / sqrt(step)."""

    def lr(step: int) -> float:
        return peak * min(step / max(1, warmup), math.sqrt(warmup / step) if warmup else 1 / math.sqrt(step))

    return lr


def constant(peak: float, warmup: int = 0) -> Schedule:
    """Linear warm-up to `peak`, then constant."""

    def lr(step: int) -> float:
        return peak * min(1.0, step / warmup) if warmup else peak

    return lr


def cosine(peak: float, warmup: int, steps: int, floor: float = 0.0) -> Schedule:
    """Linear warm-up to `peak`, then half a cosine down to `floor` at step `steps`."""

    def lr(step: int) -> float:
        if step < warmup:
            return peak * step / warmup
        progress = min(1.0, (step - warmup) / max(1, steps - warmup))
        return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2

    return lr


def linear(peak: float, warmup: int, steps: int, floor: float = 0.0) -> Schedule:
    """Linear warm-up to `peak`, then linear decay to `floor` at step `steps`."""

    def lr(step: int) -> float:
        if step < warmup:
            return peak * step / warmup
        progress = min(1.0, (step - warmup) / max(1, steps - warmup))
        return peak + (floor - peak) * progress

    return lr


def make_schedule(train: TrainConfig, d_model: int, total: float) -> Schedule:
    """The schedule of a recipe; `total` is the number of steps that the budget is expected to allow."""
    match train.schedule:
        case "noam":
            return noam(d_model, train.warmup, train.lr)
        case "inverse-sqrt":
            return inverse_sqrt(train.lr, train.warmup)
        case "cosine":
            return cosine(train.lr, train.warmup, round(total))
        case "linear":
            return linear(train.lr, train.warmup, round(total))
        case "constant":
            return constant(train.lr, train.warmup)
