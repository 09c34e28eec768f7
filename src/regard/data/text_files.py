"""Text files read line by line: gzip, UTF-8 checks, byte order mark, errors with the line number."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from regard.errors import RegardError

LONGEST_LINE = 16 * 1024 * 1024  # bytes; a file without line ends must not exhaust memory

_BOM = b"\xef\xbb\xbf"
_GZIP_MAGIC = b"\x1f\x8b"


class CorpusError(RegardError):
    """A corpus that cannot be read; the message names the file and, where possible, the line."""


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a plain or .gz file with their numbers from 1; only ``\\n`` and ``\\r\\n`` end a line.

    Other characters at which Python's ``splitlines`` splits (U+2028, U+0085, form feed) stay in the text,
    so that both sides of a corpus keep the same number of lines.

    Raises:
        CorpusError: The file cannot be read, is empty, or is not UTF-8.
    """
    number = 0
    for number, raw in enumerate(_raw_lines(path), start=1):
        yield number, _decode(raw, path, number)
    if number == 0:
        raise CorpusError(f"{path} is empty; it must have at least one line")


def _raw_lines(path: Path) -> Iterator[bytes]:
    number = 0
    try:
        with _open(path) as stream:
            while raw := stream.readline(LONGEST_LINE + 1):
                number += 1
                if number == 1:
                    raw = raw.removeprefix(_BOM)
                    if not raw:
                        return
                if len(raw) > LONGEST_LINE:
                    raise CorpusError(
                        f"{path}, line {number}: longer than {LONGEST_LINE:,} bytes; a line holds one sentence"
                    )
                yield raw
    except OSError as error:  # gzip.BadGzipFile is one of them
        raise CorpusError(_why_unreadable(path, number, error)) from error
    except EOFError as error:
        raise CorpusError(
            f"{path} is truncated after line {number:,}: the gzip stream ends early; download it again"
        ) from error
    except zlib.error as error:
        raise CorpusError(
            f"{path} is damaged after line {number:,}: invalid gzip data; download it again"
        ) from error


def _open(path: Path) -> IO[bytes]:
    # gzip.open returns a GzipFile, a binary stream in all but its type
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _why_unreadable(path: Path, number: int, error: OSError) -> str:
    match error:
        case gzip.BadGzipFile() if number == 0:
            return f"{path} is not a gzip file, although its name ends in .gz; rename or compress it"
        case gzip.BadGzipFile():
            return f"{path} is damaged after line {number:,}: gzip checksum mismatch; download it again"
        case FileNotFoundError():
            return f"no such file: {path}{_similar_file(path)}"
        case IsADirectoryError():
            return f"{path} is a folder; a text file is needed (plain, .tsv, .csv or .jsonl, each also as .gz)"
        case PermissionError():
            return f"{path} cannot be read by this user; change its permissions"
    return f"{path} cannot be read: {error.strerror or error}"


def _similar_file(path: Path) -> str:
    """A hint at the same file with or without .gz, if there is one."""
    other = path.with_suffix("") if path.suffix.lower() == ".gz" else path.with_name(path.name + ".gz")
    return f"; did you mean {other}" if other.is_file() else ""


def _decode(raw: bytes, path: Path, number: int) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"{path}, line {number}: "
        if number == 1 and raw.startswith(_GZIP_MAGIC):
            raise CorpusError(where + "this is a gzip file; its name must end in .gz") from error
        if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise CorpusError(where + "this is UTF-16 text; convert the file to UTF-8") from error
        raise CorpusError(
            f"{where}byte 0x{raw[error.start]:02x} at position {error.start + 1} is not UTF-8;"
            " convert the file to UTF-8"
        ) from error
    return text.removesuffix("\n").removesuffix("\r")
