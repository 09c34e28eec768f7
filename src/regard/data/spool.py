"""A spooled copy of sentence pairs, so that a corpus is read once."""

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from regard import storage
from regard.data.corpus import Pair
from regard.errors import DiskError

IN_MEMORY = 32 * 1024 * 1024
"""Bytes up to which the copy stays in memory."""

BLOCK = 1024 * 1024
"""Bytes read at a time."""

CHUNK = 10_000
"""Pairs written at a time."""


class PairSpool:
    """Pairs that are read once, on first use, and from a copy afterwards.

    The copy is in memory or, above `IN_MEMORY` bytes, in an anonymous temporary file, which disappears when the
    process ends. Iterations may be interleaved.

    Args:
        read: Opens the corpus; no side of a pair may contain a line end.
        folder: Folder of the temporary file; made if it is missing.

    Raises:
        DiskError: During an iteration, if the file cannot be written.
    """

    def __init__(self, read: Callable[[], Iterable[Pair]], folder: Path) -> None:
        self.folder = folder
        self.pairs = self.bytes = 0
        self.file: IO[bytes] = io.BytesIO()
        self._source = (pair for begin in [read] for pair in begin())

    def count(self) -> int:
        """Number of pairs; reads the rest of the corpus."""
        while self._copy_chunk():
            pass
        return self.pairs

    def __iter__(self) -> Iterator[Pair]:
        lines: list[str] = []
        offset, rest = 0, b""
        while offset < self.bytes or self._copy_chunk():
            self.file.seek(offset)
            block = self.file.read(BLOCK)
            offset += len(block)
            complete, newline, rest = (rest + block).rpartition(b"\n")
            if newline:
                lines += complete.decode().split("\n")
                odd = [lines.pop()] if len(lines) % 2 else []
                yield from zip(lines[::2], lines[1::2], strict=True)
                lines = odd

    def close(self) -> None:
        """Remove the copy; the pairs cannot be read afterwards."""
        self.file.close()

    def _copy_chunk(self) -> bool:
        """Copy the next chunk of pairs; False if there are none left."""
        if self.file.closed:
            raise ValueError("the copy of these pairs is closed")
        try:
            chunk = list(islice(self._source, CHUNK))
            if chunk:
                self._append(chunk)
        except BaseException:
            self.close()  # a partial copy must not be taken for the whole corpus
            raise
        return bool(chunk)

    def _append(self, chunk: list[Pair]) -> None:
        block = "".join(f"{source}\n{target}\n" for source, target in chunk).encode()
        if block.count(b"\n") != 2 * len(chunk):
            raise ValueError("a side of a sentence pair has a line end in it")
        try:
            if isinstance(self.file, io.BytesIO) and self.bytes + len(block) > IN_MEMORY:
                self.file = self._on_disk(self.file.getvalue())
            self.file.seek(self.bytes)
            self.file.write(block)
        except OSError as problem:
            raise DiskError(
                f"a copy of the corpus cannot be written to {self.folder}: {storage.reason(problem)}"
            ) from None
        self.pairs += len(chunk)
        self.bytes += len(block)

    def _on_disk(self, content: bytes) -> IO[bytes]:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = TemporaryFile(dir=self.folder)  # noqa: SIM115  # stays open as long as the copy is needed
        file.write(content)
        return file
