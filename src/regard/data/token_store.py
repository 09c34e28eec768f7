"""Token ids of a corpus in memory-mapped files: built once and keyed by content.

A store consists of parts of a million pairs. Processes that need the same one build it together, each the parts
that no other is building; complete parts survive an interruption.

Files may be damaged after they were written, and an id beyond the vocabulary would index memory out of bounds.
Therefore a part's offsets and ids are checked when it is opened, before any of them is used.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from regard import storage
from regard.data.corpus import Pair
from regard.data.text_files import CorpusError
from regard.errors import DiskError

Encode = Callable[[list[str]], list[list[int]]]
"""Function from texts to their ids."""

Sizes = tuple[int, int]
"""Vocabulary sizes of source and target; every id is smaller."""

PART = 1_000_000
"""Pairs per part of a store; the last part may have fewer."""

CHUNK = 10_000
"""Pairs encoded at a time, so that memory does not grow with the corpus."""

OPEN = 32
"""Parts that are memory-mapped at a time."""

SIDES = ("source", "target")
VERSION = 3


def store_key(*parts: str) -> str:
    """Name of a store: a hash of everything its content depends on."""
    return hashlib.sha256("\0".join((*parts, str(VERSION))).encode()).hexdigest()[:20]


def open_or_build(
    folder: Path,
    pairs: Callable[[], Iterable[Pair]],
    source: Encode,
    target: Encode,
    sizes: Sizes,
    part: int = PART,
) -> "TokenStore":
    """Open the store in `folder`; build it if it is missing, rebuild its damaged parts.

    Only the first `OPEN` parts are checked here, so that a large store opens fast; damage in a later part
    raises CorpusError when it is read.

    Args:
        folder: Folder of the store.
        pairs: Opens the corpus from its beginning.
        source: Encodes source texts.
        target: Encodes target texts.
        sizes: Vocabulary sizes.
        part: Pairs per part.

    Raises:
        DiskError: The store cannot be written.
    """
    store = open_undamaged(folder, sizes)
    if store is None:
        try:
            Builder(folder, pairs, (source, target), sizes, part).build()
        except OSError as problem:
            raise DiskError(f"the token store {folder} cannot be written: {storage.reason(problem)}") from None
        store = TokenStore(folder, sizes)
    return store


def open_undamaged(folder: Path, sizes: Sizes) -> "TokenStore | None":
    """The store, or None if it is missing or damaged."""
    if not is_complete(folder):
        return None
    try:
        store = TokenStore(folder, sizes)
    except CorpusError:
        return None
    return None if store.damaged() else store


def is_complete(folder: Path) -> bool:
    """Whether the store is complete and its files have their recorded sizes."""
    try:
        contents = json.loads((folder / "store.json").read_text("utf-8"))
        return contents["version"] == VERSION and not damaged(folder, contents["bytes"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def damaged(folder: Path, sizes: dict[str, int]) -> list[str]:
    """Files that are missing or do not have their recorded size."""
    paths = {name: folder / name for name in sizes}
    return [
        name for name, size in sizes.items() if not paths[name].is_file() or paths[name].stat().st_size != size
    ]


class Builder:
    """Writes a store part by part; several processes may build the same store."""

    def __init__(
        self,
        folder: Path,
        pairs: Callable[[], Iterable[Pair]],
        encoders: tuple[Encode, Encode],
        sizes: Sizes,
        size: int,
    ) -> None:
        self.folder, self.pairs, self.encoders, self.sizes, self.size = folder, pairs, encoders, sizes, size

    def build(self) -> None:
        with storage.file_lock(self.folder / ".lock"):
            self.clear_damage()
        postponed = []
        stream = iter(self.pairs())
        for number in count():
            part = islice(stream, self.size)
            if (first := next(part, None)) is None:
                break
            with storage.file_lock(self.lock(number), wait=False) as acquired:
                if acquired:
                    self.write_part(number, chain([first], part))
                else:
                    postponed.append(number)
            for _ in part:  # skip the pairs that were not written
                pass
        for (
            locked
        ) in postponed:  # built by another process: wait for it, and build the part if that process died
            with storage.file_lock(self.lock(locked)):
                begin = locked * self.size
                self.write_part(locked, islice(self.pairs(), begin, begin + self.size))
        with storage.file_lock(self.folder / ".lock"):
            self.write_contents(number)

    def lock(self, number: int) -> Path:
        return self.folder / f".{number:05}.lock"

    def clear_damage(self) -> None:
        """Remove damaged parts, to be built again.

        Without store.json the build was interrupted; its parts are whole, since each is written atomically.
        """
        try:
            contents = json.loads((self.folder / "store.json").read_text("utf-8"))
            names = {Path(name).parent.name for name in damaged(self.folder, contents["bytes"])}
            names.update(part_name(number) for number in TokenStore(self.folder, self.sizes).damaged())
            names = {name for name in names if name.isdecimal()}  # store.json may contain any name
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError, CorpusError):
            names = {part.name for part in self.folder.glob("[0-9]*")}
        if names:  # empty if another process has rebuilt them
            storage.remove(self.folder / "store.json")
            for name in names:
                storage.remove(self.folder / name)

    def write_part(self, number: int, pairs: Iterable[Pair]) -> None:
        """Write a part atomically, unless it exists."""
        path = self.folder / part_name(number)
        if not path.is_dir():
            with storage.atomic_path(path) as part:
                part.mkdir()
                write_part(part, pairs, self.encoders)

    def write_contents(self, parts: int) -> None:
        """Write store.json, which marks the store as complete."""
        names = [part_name(number) for number in range(parts)]
        files = [path for name in names for path in sorted((self.folder / name).iterdir())]
        sizes = {f"{path.parent.name}/{path.name}": path.stat().st_size for path in files}
        starts = [sizes[f"{name}/source.starts"] for name in names]
        contents = {
            "version": VERSION,
            "pairs": sum(size // 8 - 1 for size in starts),
            "part": self.size,
            "bytes": sizes,
        }
        storage.write_text(self.folder / "store.json", json.dumps(contents) + "\n")
        for number in range(parts):
            storage.remove(self.lock(number))


def part_name(number: int) -> str:
    return f"{number:05}"


def write_part(folder: Path, pairs: Iterable[Pair], encoders: tuple[Encode, Encode]) -> None:
    """Write ids (uint32), sentence offsets, and the text, which BPE-dropout needs."""
    stream = iter(pairs)
    sides = [SideWriter(folder, name, encode) for name, encode in zip(SIDES, encoders, strict=True)]
    while chunk := list(islice(stream, CHUNK)):
        for side, texts in zip(sides, zip(*chunk, strict=True), strict=True):
            side.write(list(texts))
    for side in sides:
        side.close()


class SideWriter:
    """Writer of one language of a part."""

    def __init__(self, folder: Path, name: str, encode: Encode) -> None:
        self.encode = encode
        self.files: dict[str, BinaryIO] = {
            part: (folder / f"{name}.{part}").open("wb") for part in ("ids", "starts", "text", "text-starts")
        }
        self.ids = self.bytes = 0

    def write(self, texts: list[str]) -> None:
        encoded = self.encode(texts)
        lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
        flat = np.fromiter(
            (token for ids in encoded for token in ids), dtype=np.uint32, count=int(lengths.sum())
        )
        self.files["ids"].write(flat.tobytes())
        self.files["starts"].write((self.ids + lengths.cumsum() - lengths).tobytes())
        self.ids += int(lengths.sum())
        raw = [text.encode() for text in texts]
        sizes = np.array([len(text) for text in raw], dtype=np.int64)
        self.files["text"].write(b"".join(raw))
        self.files["text-starts"].write((self.bytes + sizes.cumsum() - sizes).tobytes())
        self.bytes += int(sizes.sum())

    def close(self) -> None:
        self.files["starts"].write(np.int64(self.ids).tobytes())
        self.files["text-starts"].write(np.int64(self.bytes).tobytes())
        for file in self.files.values():
            file.close()


class TokenStore:
    """Sentence pairs as memory-mapped ids.

    Args:
        folder: Folder of a store that `open_or_build` made.
        sizes: Vocabulary sizes that ids are checked against.

    Raises:
        CorpusError: store.json is damaged; or, when a part is first read, one of its files is.
    """

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        path = folder / "store.json"
        try:
            contents = json.loads(path.read_text("utf-8"))
            self.pairs, self.part = int(contents["pairs"]), int(contents["part"])
            parts = len({Path(name).parent for name in contents["bytes"]})
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as problem:
            raise damage(path, str(problem)) from None
        if self.pairs < 0 or self.part < 1 or -(-self.pairs // self.part) != parts:
            raise damage(path, f"{self.pairs:,} pairs, {self.part:,} per part, in {parts:,} parts")
        self.source, self.target = (
            Side(folder, name, size, self.parts()) for name, size in zip(SIDES, sizes, strict=True)
        )

    def __len__(self) -> int:
        return self.pairs

    def parts(self) -> list[range]:
        """Ranges of the pairs in each part."""
        return [range(first, min(first + self.part, self.pairs)) for first in range(0, self.pairs, self.part)]

    def damaged(self) -> list[int]:
        """Numbers of those among the first `OPEN` parts that have damaged files."""

        def is_damaged(number: int) -> bool:
            try:
                for side in (self.source, self.target):
                    side.part(number)
            except CorpusError:
                return True
            return False

        return [number for number in range(min(OPEN, len(self.parts()))) if is_damaged(number)]


class Side:
    """One language of an open store; parts are opened on first use."""

    def __init__(self, folder: Path, name: str, vocabulary: int, parts: list[range]) -> None:
        self.folder, self.name, self.vocabulary, self.parts = folder, name, vocabulary, parts
        self.size = max(map(len, parts), default=1)
        self.part = lru_cache(OPEN)(self.open_part)
        self._checked: set[int] = set()

    def open_part(self, number: int) -> "SidePart":
        """Map a part's files, and check their content the first time."""
        part = SidePart.open(self.folder / part_name(number), self.name)
        if number not in self._checked:
            part.check(len(self.parts[number]), self.vocabulary)
            self._checked.add(number)
        return part

    def sentence(self, number: int) -> np.ndarray:
        """The ids of one sentence."""
        part, row = divmod(number, self.size)
        return self.part(part).sentence(row)

    def text(self, number: int) -> str:
        """The text of one sentence."""
        part, row = divmod(number, self.size)
        return self.part(part).text(row)

    def lengths(self, part: range) -> np.ndarray:
        """Number of ids of each sentence of a part."""
        return np.diff(self.part(part.start // self.size).starts)

    def flat(self, part: range) -> np.ndarray:
        """The concatenated ids of a part."""
        return self.part(part.start // self.size).ids

    def damage(self, part: range, what: str) -> CorpusError:
        """The error for wrong offsets in a part."""
        return damage(self.folder / part_name(part.start // self.size) / f"{self.name}.starts", what)


@dataclass(frozen=True)
class SidePart:
    """One language of one part."""

    folder: Path
    name: str
    ids: np.ndarray
    starts: np.ndarray  # (pairs + 1,)
    raw: np.ndarray
    text_starts: np.ndarray  # (pairs + 1,)

    @classmethod
    def open(cls, folder: Path, name: str) -> "SidePart":
        def mapped(kind: str, dtype: type) -> np.ndarray:
            path = folder / f"{name}.{kind}"
            try:
                if not path.stat().st_size:
                    return np.zeros(0, dtype)  # an empty file cannot be memory-mapped
                return np.memmap(path, dtype, mode="r").view(np.ndarray)  # faster to slice than a memmap
            except (OSError, ValueError) as problem:
                raise damage(path, str(problem)) from None

        return cls(
            folder,
            name,
            mapped("ids", np.uint32),
            mapped("starts", np.int64),
            mapped("text", np.uint8),
            mapped("text-starts", np.int64),
        )

    def check(self, sentences: int, vocabulary: int) -> None:
        """Raise CorpusError unless offsets are ordered and within the data, and ids within the vocabulary."""
        self.check_offsets("starts", self.starts, sentences, len(self.ids))
        self.check_offsets("text-starts", self.text_starts, sentences, len(self.raw))
        if len(self.ids) and self.ids.max() >= vocabulary:
            position = int(np.argmax(self.ids >= vocabulary))
            raise damage(
                self.folder / f"{self.name}.ids",
                f"token id {self.ids[position]:,} at position {position:,}, the vocabulary has {vocabulary:,}",
            )

    def check_offsets(self, kind: str, offsets: np.ndarray, sentences: int, end: int) -> None:
        path = self.folder / f"{self.name}.{kind}"
        if len(offsets) != sentences + 1:
            raise damage(path, f"{len(offsets):,} offsets for {sentences:,} sentences, one more is needed")
        if (offsets[0], offsets[-1]) != (0, end):
            raise damage(path, f"offsets from {offsets[0]:,} to {offsets[-1]:,}, the data is from 0 to {end:,}")
        decreasing = offsets[1:] < offsets[:-1]
        if decreasing.any():
            position = int(np.argmax(decreasing)) + 1
            raise damage(
                path, f"offset {offsets[position]:,} at position {position:,} follows {offsets[position - 1]:,}"
            )

    def sentence(self, row: int) -> np.ndarray:
        return self.ids[self.starts[row] : self.starts[row + 1]]

    def text(self, row: int) -> str:
        raw = bytes(self.raw[self.text_starts[row] : self.text_starts[row + 1]])
        try:
            return raw.decode()
        except UnicodeDecodeError as problem:
            raise damage(
                self.folder / f"{self.name}.text", f"sentence {row:,} of it is not UTF-8 ({problem.reason})"
            ) from None


def damage(path: Path, what: str) -> CorpusError:
    """The error for a damaged file of a store."""
    store = path.parent if path.name == "store.json" else path.parent.parent
    return CorpusError(
        f"{path} is damaged: {what}; delete {store} and start again, which rebuilds it from the corpus"
    )
