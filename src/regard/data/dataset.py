"""What the catalogue asks of a named data set, whatever lies behind it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from regard.config.schema import suggest
from regard.data.corpus import Pair
from regard.errors import RegardError

Form = Literal["raw", "tok"]

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Description:
    """What a user wants to know before choosing a data set."""

    name: str
    summary: str
    languages: tuple[str, ...]
    """The first two are the direction taken when none is asked for."""
    sizes: Mapping[str, int | None]
    """Pairs in each split; None where there is no end to them."""
    licence: str
    origin: str
    forms: tuple[Form, ...] = ("raw",)

    def direction(self, source: str | None, target: str | None) -> Pair:
        """The languages asked for, completed by the usual ones and checked."""
        first, second = self.languages[:2]
        if source is None:
            source = second if target == first else first
        if target is None:
            target = first if source == second else second
        for language in (source, target):
            choose(language, self.languages, "language", f" in {self.name}")
        if source == target:
            raise RegardError(f"{self.name}: source and target are both {source}; choose two of its languages")
        return source, target


class DataSet(Protocol):
    """Pairs by split and direction, from a folder of the user's or from the cache."""

    @property
    def description(self) -> Description: ...

    def present(self, cache: Path) -> bool: ...

    def fetch(self, cache: Path, languages: Sequence[str], form: Form) -> list[Path]: ...

    def pairs(
        self, split: str, direction: Pair, form: Form, folder: Path | None, cache: Path
    ) -> Iterator[Pair]: ...


def choose(given: str, allowed: Iterable[str], noun: str, place: str = "") -> str:
    """``given`` if it is allowed; otherwise a sentence with the choices and the nearest one."""
    choices = list(allowed)
    if given in choices:
        return given
    raise RegardError(f"there is no {noun} {given!r}{place}; {suggest(given, choices)}")
