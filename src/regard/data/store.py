"""Token ids of a corpus in memory-mapped files: built once, keyed by content, opened in no time.

A store lies in parts of a million pairs. Processes that need the same one build it together, each the parts
that nobody else is at; what was built before an interruption is not built again.

Files may be damaged after they were written, and an id beyond the vocabulary would index memory beyond a table.
So a part's offsets and ids are checked when it is opened, before any of them is used.
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
from regard.data.lines import CorpusError
from regard.errors import DiskError

Encode = Callable[[list[str]], list[list[int]]]
"""Texts to ids, many at a time."""

Sizes = tuple[int, int]
"""Vocabulary sizes of source and target: every id is below."""

PART = 1_000_000
"""Pairs in a part of a store, but for the last one."""

CHUNK = 10_000
"""Pairs encoded at a time: memory stays flat however long the corpus is."""

OPEN = 32
"""Parts held open at a time."""

SIDES = ("source", "target")
VERSION = 3


def store_key(*parts: str) -> str:
    """A name for a store from everything its content depends on."""
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

    The first `OPEN` parts are checked here, so that opening a large store stays fast; damage in a later one
    raises CorpusError when it is read.
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
    """The store, or None if it is missing or damage is found."""
    if not whole(folder):
        return None
    try:
        store = TokenStore(folder, sizes)
    except CorpusError:
        return None
    return None if store.damaged() else store


def whole(folder: Path) -> bool:
    """Whether the store is there and its files are as long as they were."""
    try:
        told = json.loads((folder / "store.json").read_text("utf-8"))
        return told["version"] == VERSION and not damaged(folder, told["bytes"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def damaged(folder: Path, sizes: dict[str, int]) -> list[str]:
    """Files that are not as long as they were, or gone."""
    paths = {name: folder / name for name in sizes}
    return [
        name for name, size in sizes.items() if not paths[name].is_file() or paths[name].stat().st_size != size
    ]


class Builder:
    """Writes a store part by part, beside other processes that write the same one."""

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
        left = []
        stream = iter(self.pairs())
        for number in count():
            part = islice(stream, self.size)
            if (first := next(part, None)) is None:
                break
            with storage.file_lock(self.lock(number), wait=False) as mine:
                if mine:
                    self.write_part(number, chain([first], part))
                else:
                    left.append(number)
            for _ in part:  # what was not written is passed over
                pass
        for other in left:  # another process is at it: wait, and do it where that one died
            with storage.file_lock(self.lock(other)):
                begin = other * self.size
                self.write_part(other, islice(self.pairs(), begin, begin + self.size))
        with storage.file_lock(self.folder / ".lock"):
            self.write_contents(number)

    def lock(self, number: int) -> Path:
        return self.folder / f".{number:05}.lock"

    def clear_damage(self) -> None:
        """Remove damaged parts, to be built again.

        Without store.json building was interrupted, and the parts are whole: each appears when it is complete.
        """
        try:
            told = json.loads((self.folder / "store.json").read_text("utf-8"))
            names = {Path(name).parent.name for name in damaged(self.folder, told["bytes"])}
            names.update(part_name(number) for number in TokenStore(self.folder, self.sizes).damaged())
            names = {name for name in names if name.isdecimal()}  # store.json may name anything
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError, CorpusError):
            names = {part.name for part in self.folder.glob("[0-9]*")}
        if names:  # none, if another process rebuilt them meanwhile
            storage.remove(self.folder / "store.json")
            for name in names:
                storage.remove(self.folder / name)

    def write_part(self, number: int, pairs: Iterable[Pair]) -> None:
        """A part of the store, whole or not there; it may be there already."""
        place = self.folder / part_name(number)
        if not place.is_dir():
            with storage.atomic_path(place) as part:
                part.mkdir()
                write_part(part, pairs, self.encoders)

    def write_contents(self, parts: int) -> None:
        """What the store has, last of all."""
        names = [part_name(number) for number in range(parts)]
        files = [path for name in names for path in sorted((self.folder / name).iterdir())]
        sizes = {f"{path.parent.name}/{path.name}": path.stat().st_size for path in files}
        starts = [sizes[f"{name}/source.starts"] for name in names]
        told = {
            "version": VERSION,
            "pairs": sum(size // 8 - 1 for size in starts),
            "part": self.size,
            "bytes": sizes,
        }
        storage.write_text(self.folder / "store.json", json.dumps(told) + "\n")
        for number in range(parts):
            storage.remove(self.lock(number))


def part_name(number: int) -> str:
    return f"{number:05}"


def write_part(folder: Path, pairs: Iterable[Pair], encoders: tuple[Encode, Encode]) -> None:
    """Write ids (uint32), where each sentence begins, and the text itself for BPE-dropout."""
    stream = iter(pairs)
    sides = [SideWriter(folder, name, encode) for name, encode in zip(SIDES, encoders, strict=True)]
    while chunk := list(islice(stream, CHUNK)):
        for side, texts in zip(sides, zip(*chunk, strict=True), strict=True):
            side.write(list(texts))
    for side in sides:
        side.close()


class SideWriter:
    """One language of a part, appended to chunk by chunk."""

    def __init__(self, folder: Path, name: str, encode: Encode) -> None:
        self.encode = encode
        self.files: dict[str, BinaryIO] = {
            part: (folder / f"{name}.{part}").open("wb") for part in ("ids", "starts", "text", "text-starts")
        }
        self.ids = self.bytes = 0

    def write(self, texts: list[str]) -> None:
        encoded = self.encode(texts)
        lengths = np.array([len(each) for each in encoded], dtype=np.int64)
        flat = np.fromiter(
            (token for each in encoded for token in each), dtype=np.uint32, count=int(lengths.sum())
        )
        self.files["ids"].write(flat.tobytes())
        self.files["starts"].write((self.ids + lengths.cumsum() - lengths).tobytes())
        self.ids += int(lengths.sum())
        raw = [text.encode() for text in texts]
        sizes = np.array([len(each) for each in raw], dtype=np.int64)
        self.files["text"].write(b"".join(raw))
        self.files["text-starts"].write((self.bytes + sizes.cumsum() - sizes).tobytes())
        self.bytes += int(sizes.sum())

    def close(self) -> None:
        self.files["starts"].write(np.int64(self.ids).tobytes())
        self.files["text-starts"].write(np.int64(self.bytes).tobytes())
        for file in self.files.values():
            file.close()


class TokenStore:
    """Sentence pairs as ids, read from disk only where they are touched.

    Args:
        folder: where `open_or_build` put it.
        sizes: the vocabulary sizes that ids are checked against.

    Raises:
        CorpusError: store.json is damaged; or, when a part is first read, one of its files is.
    """

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        path = folder / "store.json"
        try:
            told = json.loads(path.read_text("utf-8"))
            self.pairs, self.part = int(told["pairs"]), int(told["part"])
            parts = len({Path(name).parent for name in told["bytes"]})
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as problem:
            raise damage(path, str(problem)) from None
        if self.pairs < 0 or self.part < 1 or -(-self.pairs // self.part) != parts:
            raise damage(path, f"{self.pairs:,} pairs, of which a part has {self.part:,}, in {parts:,} parts")
        self.source, self.target = (
            Side(folder, name, size, self.parts()) for name, size in zip(SIDES, sizes, strict=True)
        )

    def __len__(self) -> int:
        return self.pairs

    def parts(self) -> list[range]:
        """The numbers of the pairs in each part."""
        return [range(first, min(first + self.part, self.pairs)) for first in range(0, self.pairs, self.part)]

    def damaged(self) -> list[int]:
        """Which of the first `OPEN` parts have damaged files."""

        def is_damaged(number: int) -> bool:
            try:
                for side in (self.source, self.target):
                    side.part(number)
            except CorpusError:
                return True
            return False

        return [number for number in range(min(OPEN, len(self.parts()))) if is_damaged(number)]


class Side:
    """One language of an open store; parts are opened when they are asked for."""

    def __init__(self, folder: Path, name: str, vocabulary: int, parts: list[range]) -> None:
        self.folder, self.name, self.vocabulary, self.parts = folder, name, vocabulary, parts
        self.size = max(map(len, parts), default=1)
        self.part = lru_cache(OPEN)(self.open_part)
        self._checked: set[int] = set()

    def open_part(self, number: int) -> "SidePart":
        """Map a part's files; the first time, check what they hold."""
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
        """One sentence as it was read."""
        part, row = divmod(number, self.size)
        return self.part(part).text(row)

    def lengths(self, part: range) -> np.ndarray:
        """How many ids each sentence of a part has."""
        return np.diff(self.part(part.start // self.size).starts)

    def flat(self, part: range) -> np.ndarray:
        """The ids of all sentences of a part, one after another."""
        return self.part(part.start // self.size).ids

    def damage(self, part: range, what: str) -> CorpusError:
        """The error for offsets of a part that a reader finds wrong."""
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
                    return np.zeros(0, dtype)  # an empty file cannot be mapped
                return np.memmap(path, dtype, mode="r").view(np.ndarray)  # whose slices are made faster
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
        """Raise CorpusError unless the offsets lie within the data, in order, and the ids in the vocabulary."""
        self.check_offsets("starts", self.starts, sentences, len(self.ids))
        self.check_offsets("text-starts", self.text_starts, sentences, len(self.raw))
        if len(self.ids) and self.ids.max() >= vocabulary:
            place = int(np.argmax(self.ids >= vocabulary))
            raise damage(
                self.folder / f"{self.name}.ids",
                f"token id {self.ids[place]:,} at position {place:,}, the vocabulary has {vocabulary:,}",
            )

    def check_offsets(self, kind: str, offsets: np.ndarray, sentences: int, end: int) -> None:
        path = self.folder / f"{self.name}.{kind}"
        if len(offsets) != sentences + 1:
            raise damage(path, f"{len(offsets):,} offsets for {sentences:,} sentences, one more is needed")
        if (offsets[0], offsets[-1]) != (0, end):
            raise damage(path, f"offsets from {offsets[0]:,} to {offsets[-1]:,}, the data is from 0 to {end:,}")
        decreasing = offsets[1:] < offsets[:-1]
        if decreasing.any():
            place = int(np.argmax(decreasing)) + 1
            raise damage(
                path, f"offset {offsets[place]:,} at position {place:,} follows {offsets[place - 1]:,}"
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
        f"{path} is damaged: {what}. Delete {store} and start again; it is rebuilt from the corpus"
    )
