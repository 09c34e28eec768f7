"""Token ids of a corpus in memory-mapped files: built once, keyed by content, opened in no time."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from regard import disk
from regard.data.corpus import Pair
from regard.errors import RegardError

Encode = Callable[[list[str]], list[list[int]]]
"""Texts to ids, many at a time."""

CHUNK = 10_000
"""Pairs encoded at a time: memory stays flat however long the corpus is."""

SIDES = ("source", "target")


def store_key(*parts: str) -> str:
    """A name for a store from everything its content depends on."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def open_or_build(
    folder: Path, pairs: Callable[[], Iterable[Pair]], source: Encode, target: Encode
) -> "TokenStore":
    """The store in `folder`; it is built first where it is not there yet or damaged, aside and then renamed."""
    if not whole(folder):
        with disk.only_one(folder.parent):
            if not whole(folder):  # another process may have built it while we waited
                with disk.aside(folder) as part:
                    part.mkdir()
                    build(part, pairs(), source, target)
    return TokenStore(folder)


def whole(folder: Path) -> bool:
    """Whether the store is there and its files are as long as they were."""
    try:
        sizes = json.loads((folder / "store.json").read_text("utf-8"))["bytes"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def build(folder: Path, pairs: Iterable[Pair], source: Encode, target: Encode) -> None:
    """Write ids (uint32), where each sentence begins, and the text itself for BPE-dropout."""
    stream = iter(pairs)
    sides = [SideWriter(folder, name, encode) for name, encode in zip(SIDES, (source, target), strict=True)]
    count = 0
    while chunk := list(islice(stream, CHUNK)):
        for side, texts in zip(sides, zip(*chunk, strict=True), strict=True):
            side.write(list(texts))
        count += len(chunk)
    for side in sides:
        side.close()
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    told = {"pairs": count, "version": 2, "bytes": sizes}
    (folder / "store.json").write_text(json.dumps(told) + "\n", "utf-8")


class SideWriter:
    """One language of a store, appended to chunk by chunk."""

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


@dataclass(frozen=True)
class Side:
    """One language of an open store."""

    ids: np.ndarray
    starts: np.ndarray  # (pairs + 1,)
    raw: np.ndarray
    text_starts: np.ndarray  # (pairs + 1,)

    def sentence(self, number: int) -> np.ndarray:
        """The ids of one sentence."""
        return self.ids[self.starts[number] : self.starts[number + 1]]

    def text(self, number: int) -> str:
        """One sentence as it was read."""
        return bytes(self.raw[self.text_starts[number] : self.text_starts[number + 1]]).decode()


class TokenStore:
    """Sentence pairs as ids, read from disk only where they are touched."""

    def __init__(self, folder: Path) -> None:
        try:
            self.pairs = int(json.loads((folder / "store.json").read_text("utf-8"))["pairs"])
            self.source, self.target = (open_side(folder, name) for name in SIDES)
        except (OSError, ValueError, KeyError) as problem:
            raise RegardError(
                f"the token store {folder} is damaged ({problem}); remove it to build it anew"
            ) from None

    def __len__(self) -> int:
        return self.pairs


def open_side(folder: Path, name: str) -> Side:
    def mapped(part: str, kind: type) -> np.ndarray:
        path = folder / f"{name}.{part}"
        # An empty file cannot be mapped.
        return np.memmap(path, dtype=kind, mode="r") if path.stat().st_size else np.zeros(0, dtype=kind)

    return Side(
        mapped("ids", np.uint32),
        mapped("starts", np.int64),
        mapped("text", np.uint8),
        mapped("text-starts", np.int64),
    )
