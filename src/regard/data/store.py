"""Token ids of a corpus in memory-mapped files: built once, keyed by content, opened in no time.

A store lies in parts of a million pairs. Processes that need the same one build it together, each the parts
that nobody else is at; what was built before an interruption is not built again.
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

from regard import disk
from regard.data.corpus import Pair
from regard.errors import DiskError, RegardError

Encode = Callable[[list[str]], list[list[int]]]
"""Texts to ids, many at a time."""

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
    folder: Path, pairs: Callable[[], Iterable[Pair]], source: Encode, target: Encode, part: int = PART
) -> "TokenStore":
    """The store in `folder`; it is built first, or mended, where it is not there yet or damaged."""
    if not whole(folder):
        try:
            Builder(folder, pairs, (source, target), part).build()
        except OSError as problem:
            raise DiskError(f"the token store {folder} cannot be written: {disk.reason(problem)}") from None
    return TokenStore(folder)


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
        self, folder: Path, pairs: Callable[[], Iterable[Pair]], encoders: tuple[Encode, Encode], size: int
    ) -> None:
        self.folder, self.pairs, self.encoders, self.size = folder, pairs, encoders, size

    def build(self) -> None:
        with disk.only_one(self.folder / ".lock"):
            self.clear_damage()
        left = []
        stream = iter(self.pairs())
        for number in count():
            part = islice(stream, self.size)
            if (first := next(part, None)) is None:
                break
            with disk.only_one(self.lock(number), wait=False) as mine:
                if mine:
                    self.write_part(number, chain([first], part))
                else:
                    left.append(number)
            for _ in part:  # what was not written is passed over
                pass
        for other in left:  # another process is at it: wait, and do it where that one died
            with disk.only_one(self.lock(other)):
                begin = other * self.size
                self.write_part(other, islice(self.pairs(), begin, begin + self.size))
        with disk.only_one(self.folder / ".lock"):
            self.write_contents(number)

    def lock(self, number: int) -> Path:
        return self.folder / f".{number:05}.lock"

    def clear_damage(self) -> None:
        """Parts that are not as long as they were are built anew; those that nobody told of are whole."""
        try:
            told = json.loads((self.folder / "store.json").read_text("utf-8"))
            for name in damaged(self.folder, told["bytes"]):
                disk.remove((self.folder / name).parent)
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            for part in self.folder.glob("[0-9]*"):
                disk.remove(part)
        disk.remove(self.folder / "store.json")

    def write_part(self, number: int, pairs: Iterable[Pair]) -> None:
        """A part of the store, whole or not there; it may be there already."""
        place = self.folder / f"{number:05}"
        if not place.is_dir():
            with disk.aside(place) as part:
                part.mkdir()
                write_part(part, pairs, self.encoders)

    def write_contents(self, parts: int) -> None:
        """What the store has, last of all."""
        names = [f"{number:05}" for number in range(parts)]
        files = [path for name in names for path in sorted((self.folder / name).iterdir())]
        sizes = {f"{path.parent.name}/{path.name}": path.stat().st_size for path in files}
        starts = [sizes[f"{name}/source.starts"] for name in names]
        told = {
            "version": VERSION,
            "pairs": sum(size // 8 - 1 for size in starts),
            "part": self.size,
            "bytes": sizes,
        }
        disk.write_text(self.folder / "store.json", json.dumps(told) + "\n")
        for number in range(parts):
            disk.remove(self.lock(number))


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
    """Sentence pairs as ids, read from disk only where they are touched."""

    def __init__(self, folder: Path) -> None:
        try:
            told = json.loads((folder / "store.json").read_text("utf-8"))
            self.pairs, self.part = int(told["pairs"]), int(told["part"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise RegardError(
                f"the token store {folder} is damaged ({problem}); remove it to build it anew"
            ) from None
        self.source, self.target = (Side(folder, name, self.part) for name in SIDES)

    def __len__(self) -> int:
        return self.pairs

    def parts(self) -> list[range]:
        """The numbers of the pairs in each part."""
        return [range(first, min(first + self.part, self.pairs)) for first in range(0, self.pairs, self.part)]


class Side:
    """One language of an open store; parts are opened when they are asked for."""

    def __init__(self, folder: Path, name: str, size: int) -> None:
        self.size = size
        self.part = lru_cache(OPEN)(lambda number: open_part(folder / f"{number:05}", name))

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


@dataclass(frozen=True)
class SidePart:
    """One language of one part."""

    ids: np.ndarray
    starts: np.ndarray  # (pairs + 1,)
    raw: np.ndarray
    text_starts: np.ndarray  # (pairs + 1,)

    def sentence(self, row: int) -> np.ndarray:
        return self.ids[self.starts[row] : self.starts[row + 1]]

    def text(self, row: int) -> str:
        return bytes(self.raw[self.text_starts[row] : self.text_starts[row + 1]]).decode()


def open_part(folder: Path, name: str) -> SidePart:
    def mapped(part: str, kind: type) -> np.ndarray:
        path = folder / f"{name}.{part}"
        # An empty file cannot be mapped.
        return np.memmap(path, dtype=kind, mode="r") if path.stat().st_size else np.zeros(0, dtype=kind)

    try:
        return SidePart(
            mapped("ids", np.uint32),
            mapped("starts", np.int64),
            mapped("text", np.uint8),
            mapped("text-starts", np.int64),
        )
    except (OSError, ValueError) as problem:
        raise RegardError(f"the token store's part {folder} is damaged ({problem}); remove it") from None
