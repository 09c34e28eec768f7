"""What every lesson hands over: tables to print, numbers for a program, one sentence on what is to be seen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

Progress = Callable[[str], object]
"""Told in a line how far a lesson has come."""


@dataclass(frozen=True)
class Table:
    """Numbers ready to print: every row has a cell for every column; the first column is the row's name."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Lesson(Protocol):
    """The result of a lesson; each module has a frozen dataclass of this shape, and a `draw` for it."""

    def tables(self) -> list[Table]:
        """The numbers, rounded for reading."""
        ...

    def finding(self) -> str:
        """One sentence: what is to be seen."""
        ...

    def as_json(self) -> dict[str, Any]:
        """The numbers unrounded, as plain dictionaries, lists, strings and numbers."""
        ...
