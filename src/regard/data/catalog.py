"""The named data sets: their descriptions, downloads and pairs."""

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
    """The corpus inside the package, which needs no download."""

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
            raise RegardError(
                f"picturebook is inside the package; it takes no folder; data.path or --path is {folder}"
            )
        german_first = direction == ("de", "en")
        return (pair if german_first else (pair[1], pair[0]) for pair in picturebook.pairs(split))


_DATA_SETS: dict[str, DataSet] = {
    data_set.description.name: data_set for data_set in (Picturebook(), Multi30k(), Tatoeba())
}


def names() -> tuple[str, ...]:
    """The names of the data sets."""
    return tuple(_DATA_SETS)


def describe(name: str) -> Description:
    """Languages, sizes, licence and origin of a data set."""
    return _find(name).description


def present(name: str, *, cache: Path | None = None) -> bool:
    """Whether the data set can be used without a download."""
    return _find(name).present(cache or cache_folder())


def fetch(
    name: str, *, cache: Path | None = None, languages: Sequence[str] | None = None, form: Form = "raw"
) -> list[Path]:
    """Download missing files into the cache; returns the paths of all files.

    Args:
        name: Name of the data set.
        cache: Cache folder.
        languages: Languages to download; by default the first two.
        form: Raw or tokenized sentences.

    Raises:
        DownloadError: No mirror provides a file.
    """
    data_set = _find(name)
    chosen = languages or data_set.description.languages[:2]
    for language in chosen:
        choose(language, data_set.description.languages, "language", f" in {name}")
    choose(form, data_set.description.forms, "form", f" of {name}")
    with _path_hint():
        return data_set.fetch(cache or cache_folder(), chosen, form)


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
    """(source, target) sentences of a split, from the folder ``path`` or else from the cache.

    Missing files are downloaded into the cache. The data set's description has the default languages.
    """
    data_set = _find(name)
    direction = data_set.description.direction(source, target)
    choose(form, data_set.description.forms, "form", f" of {name}")
    folder = None if path is None else Path(path).expanduser()
    with _path_hint():
        return data_set.pairs(split, direction, form, folder, cache or cache_folder())


@contextmanager
def _path_hint() -> Iterator[None]:
    """Adds to download errors how to use files that are on this machine already."""
    try:
        yield
    except DownloadError as error:
        hint = "if you have the files, name their folder with --path or data.path"
        raise DownloadError(f"{error}; {hint}") from error


def _find(name: str) -> DataSet:
    return _DATA_SETS[choose(name, _DATA_SETS, "data set")]
