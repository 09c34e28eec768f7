"""Multi30k: captions of photographs in four languages, from a local folder or from its public repository."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from regard.data.corpus import CorpusError, Pair, read_lines, read_pairs
from regard.data.dataset import SPLITS, Description, Form, choose
from regard.data.download import Remote, fetch, intact

_STEMS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
_SIZES = {"train": 29_000, "valid": 1_014, "test": 1_000}

_MIRRORS = (
    "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/",
    "https://github.com/multi30k/dataset/raw/master/data/task1/",
)

_SHA256 = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
}

# published by torchtext; its digests for German and English match the files above
_MD5 = {
    "train.fr.gz": "6cb767741dcad3931f966fefbc05203f",
    "train.cs.gz": "d9a5fc268917725a2b0efce3a0cc8607",
    "val.fr.gz": "93fc564584b7e5ba410c761ea5a1c682",
    "val.cs.gz": "83cdc082f646b769095615384cf5c0ca",
    "test_2016_flickr.fr.gz": "08dc7cd4a662f31718412de95ca9bfe3",
    "test_2016_flickr.cs.gz": "3104872229daa1bef3b401d44dd2220b",
}


class Multi30k:
    """Task 1 of the data set: ``raw`` sentences, or ``tok``, on which published scores are computed."""

    description = Description(
        name="multi30k",
        summary="captions of photographs, translated by people",
        languages=("de", "en", "fr", "cs"),
        sizes=_SIZES,
        licence="research use",
        origin="github.com/multi30k/dataset",
        forms=("raw", "tok"),
    )

    def present(self, cache: Path) -> bool:
        folder = cache / self.description.name
        remotes = [_remote(split, language, "raw") for split in SPLITS for language in ("de", "en")]
        return all(intact(remote, folder) for remote in remotes)

    def fetch(self, cache: Path, languages: Sequence[str], form: Form) -> list[Path]:
        remotes = [_remote(split, language, form) for split in SPLITS for language in languages]
        return [fetch(remote, cache / self.description.name) for remote in remotes]

    def pairs(
        self, split: str, direction: Pair, form: Form, folder: Path | None, cache: Path
    ) -> Iterator[Pair]:
        choose(split, SPLITS, "split")
        if folder is not None:
            source, target = (_local(folder, split, language, form) for language in direction)
        else:
            kept = cache / self.description.name
            source, target = (fetch(_remote(split, language, form), kept) for language in direction)
        return read_pairs(source, target)


def _file_name(split: str, language: str, form: Form) -> str:
    return f"{_STEMS[split]}.{language}.gz" if form == "raw" else f"{_STEMS[split]}.lc.norm.tok.{language}"


def _remote(split: str, language: str, form: Form) -> Remote:
    name = _file_name(split, language, form)
    return Remote(
        name=name,
        mirrors=tuple(f"{mirror}{form}/{name}" for mirror in _MIRRORS),
        sha256=_SHA256.get(name),
        md5=_MD5.get(name),
        check=partial(_check_lines, language=language, split=split) if form == "tok" else None,
        largest=64 << 20,
    )


def _check_lines(path: Path, *, language: str, split: str) -> None:
    lines = sum(1 for _ in read_lines(path))
    if lines != _SIZES[split]:
        raise CorpusError(f"{path} has {lines:,} lines; the {split} split of {language} has {_SIZES[split]:,}")


def _local(folder: Path, split: str, language: str, form: Form) -> Path:
    """The file in a user's folder: directly, in raw/ or tok/, or in a clone of the repository; plain or .gz."""
    name = _file_name(split, language, form).removesuffix(".gz")
    subfolders = ("", form, f"data/task1/{form}")
    for path in [folder / inner / (name + suffix) for inner in subfolders for suffix in (".gz", "")]:
        if path.is_file():
            return path
    if not folder.is_dir():
        raise CorpusError(f"no such folder: {folder}; it must hold {name}.gz")
    raise CorpusError(
        f"{folder} has no {name}.gz and no {name}, neither directly nor in {form}/ or data/task1/{form}/"
    )
