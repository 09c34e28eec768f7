"""Lessons: each module computes or measures one claim about attention, and draws it.

>>> from regard.lessons import scaling
>>> result = scaling.measure(sizes=(1, 64), draws=64)
>>> print(result.finding())  # doctest: +SKIP
>>> scaling.draw(result)  # doctest: +SKIP
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

Progress = Callable[[str], object]
"""Receives progress messages of one line."""


@dataclass(frozen=True)
class Table:
    """A table of formatted cells; the first column holds the row names."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Lesson(Protocol):
    """The result of a lesson; each module has a frozen dataclass with these methods, and `draw`."""

    def tables(self) -> list[Table]:
        """The numbers as tables, rounded."""
        ...

    def finding(self) -> str:
        """The result in one sentence."""
        ...

    def as_json(self) -> dict[str, Any]:
        """The unrounded numbers as JSON types."""
        ...
