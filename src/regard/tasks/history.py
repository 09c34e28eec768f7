"""What metrics.jsonl tells of a training that is over."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.tasks.metrics_log import read_metrics


@dataclass(frozen=True)
class History:
    """How long a training took, how fast it went, and how its validation BLEU rose."""

    minutes: float
    steps: int
    tokens_per_second: float | None
    validations: list[dict[str, float]]
    """`minutes` and `bleu` of each validation."""


def read_history(path: Path) -> History | None:
    """The history in a metrics.jsonl; nothing where the file is missing or damaged."""
    try:
        return history_of(read_metrics(path))
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError):
        return None


def history_of(rows: Sequence[dict[str, Any]]) -> History:
    """The history in the rows of metrics.jsonl."""
    return History(
        minutes=max(number(row["minutes"]) for row in rows),
        steps=max(int(row["step"]) for row in rows),
        tokens_per_second=mean_speed([row for row in rows if row["kind"] == "train"]),
        validations=[
            {"minutes": number(row["minutes"]), "bleu": number(row["bleu"])}
            for row in rows
            if row["kind"] == "valid" and "bleu" in row
        ],
    )


def mean_speed(rows: Sequence[dict[str, Any]]) -> float | None:
    """Tokens a second over the whole training, validations left out.

    Each row tells the speed over the steps since the row before it. Steps hold about the same number of tokens,
    so those steps took a time of steps / speed, and the mean is all steps over all such times: the harmonic
    mean weighted by steps, in which a slow stretch counts for as long as it lasted.
    """
    steps = times = 0.0
    last = 0
    for row in rows:
        passed, last = row["step"] - last, row["step"]
        steps += passed
        times += passed / number(row["tokens_per_second"])
    return steps / times if times > 0 else None


def number(value: Any) -> float:
    """A number that can be drawn and written as JSON."""
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"{found} is not a finite number")
    return found
