"""The interface of a named data set, and its description."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from regard.data.corpus import Pair
from regard.errors import RegardError, did_you_mean

Form = Literal["raw", "tok"]

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Description:
    """Name, languages, sizes, licence and origin of a data set."""

    name: str
    summary: str
    languages: tuple[str, ...]
    """The first two are the default direction."""
    sizes: Mapping[str, int | None]
    """Pairs in each split; None where a split is unlimited."""
    licence: str
    origin: str
    forms: tuple[Form, ...] = ("raw",)

    def direction(self, source: str | None, target: str | None) -> Pair:
        """The source and target language, with defaults for those that are None.

        Raises:
            RegardError: The data set does not have them, or they are equal.
        """
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
    """A named data set: its pairs by split and direction, from a user's folder or from the cache."""

    @property
    def description(self) -> Description: ...

    def present(self, cache: Path) -> bool: ...

    def fetch(self, cache: Path, languages: Sequence[str], form: Form) -> list[Path]: ...

    def pairs(
        self, split: str, direction: Pair, form: Form, folder: Path | None, cache: Path
    ) -> Iterator[Pair]: ...


def choose(value: str, allowed: Iterable[str], noun: str, where: str = "") -> str:
    """The value, if it is one of `allowed`.

    Raises:
        RegardError: It is not; the message lists the choices and suggests the nearest one.
    """
    choices = list(allowed)
    if value in choices:
        return value
    hint = did_you_mean(value, choices)
    raise RegardError(f"unknown {noun} {value!r}{where}; allowed: {', '.join(choices)}{hint}")
