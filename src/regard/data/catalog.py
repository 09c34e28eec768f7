"""Data sets by name: what there is, where it comes from, and its pairs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from regard.data.corpus import Pair
from regard.data.dataset import SPLITS, DataSet, Description, Form, choose
from regard.data.download import DownloadError
from regard.data.multi30k import Multi30k
from regard.data.tatoeba import Tatoeba
from regard.errors import RegardError
from regard.storage import cache_folder

__all__ = ["Description", "describe", "fetch", "names", "pairs", "present"]


class Picturebook:
    """The corpus inside the package: ready without any download."""

    description = Description(
        name="picturebook",
        summary="sentences as in a picture book, made by a grammar; the test has unseen combinations",
        languages=("de", "en"),
        sizes={"train": 40_000, "valid": 1_000, "test": 1_000},
        licence="Apache-2.0",
        origin="inside the package",
    )

    def present(self, cache: Path) -> bool:
        return True

    def fetch(self, cache: Path, languages: Sequence[str], form: Form) -> list[Path]:
        return []

    def pairs(
        self, split: str, direction: Pair, form: Form, folder: Path | None, cache: Path
    ) -> Iterator[Pair]:
        from regard.data import picturebook

        choose(split, SPLITS, "split")
        if folder is not None:
            raise RegardError(f"picturebook is inside the package; it takes no folder, but {folder} was given")
        german_first = direction == ("de", "en")
        return (pair if german_first else (pair[1], pair[0]) for pair in picturebook.pairs(split))


_SETS: dict[str, DataSet] = {each.description.name: each for each in (Picturebook(), Multi30k(), Tatoeba())}


def names() -> tuple[str, ...]:
    """The data sets that can be asked for by name."""
    return tuple(_SETS)


def describe(name: str) -> Description:
    """Languages, sizes, licence and origin of a data set."""
    return _find(name).description


def present(name: str, *, cache: Path | None = None) -> bool:
    """True when the data set can be used without a download."""
    return _find(name).present(cache or cache_folder())


def fetch(
    name: str, *, cache: Path | None = None, languages: Sequence[str] | None = None, form: Form = "raw"
) -> list[Path]:
    """Download what is missing (the first two languages unless others are named); the files, in the cache."""
    found = _find(name)
    wanted = languages or found.description.languages[:2]
    for language in wanted:
        choose(language, found.description.languages, "language", f" in {name}")
    choose(form, found.description.forms, "form", f" of {name}")
    with _advice():
        return found.fetch(cache or cache_folder(), wanted, form)


def pairs(
    name: str,
    split: str = "train",
    *,
    source: str | None = None,
    target: str | None = None,
    path: Path | str | None = None,
    form: Form = "raw",
    cache: Path | None = None,
) -> Iterator[Pair]:
    """(source, target) sentences of a split: from the folder ``path`` if given, else from the cache.

    What is not in the cache yet is downloaded first. Without languages the data set's usual direction is taken.
    """
    found = _find(name)
    direction = found.description.direction(source, target)
    choose(form, found.description.forms, "form", f" of {name}")
    folder = None if path is None else Path(path).expanduser()
    with _advice():
        return found.pairs(split, direction, form, folder, cache or cache_folder())


@contextmanager
def _advice() -> Iterator[None]:
    """A download that failed is no dead end: the files may be on this machine already."""
    try:
        yield
    except DownloadError as error:
        way_out = "whoever has the files can name their folder with --path or data.path"
        raise DownloadError(f"{str(error).removesuffix('.')}; {way_out}") from error


def _find(name: str) -> DataSet:
    return _SETS[choose(name, _SETS, "data set")]
