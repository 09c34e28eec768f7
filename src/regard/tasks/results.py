"""What trainings and evaluations return: the numbers as JSON, and a summary for a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class ResultTable:
    """Rows of text below a row of headings."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    title: str | None = None
    numbers_right: bool = False
    """Whether all columns but the first are aligned to the right."""


@dataclass(frozen=True)
class Summary:
    """A result as a person reads it: lines, a table where there is one, and lines after it."""

    lines: tuple[str, ...] = ()
    table: ResultTable | None = None
    last_lines: tuple[str, ...] = ()


class Result(Protocol):
    """Something measured."""

    def as_json(self) -> dict[str, object]: ...

    def summary(self) -> Summary: ...


class TrainedRun(Result, Protocol):
    """A finished training."""

    @property
    def folder(self) -> Path:
        """The run folder."""
