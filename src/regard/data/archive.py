"""Extraction of one file from an untrusted zip or tar.gz."""

import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TypeVar

from regard.errors import RegardError

MAX_BYTES = 1 << 30  # default limit of a member's unpacked size
MAX_SCANNED_BYTES = 8 << 30  # of a tar, while searching for a member
_BLOCK = 1 << 20

_Info = TypeVar("_Info", zipfile.ZipInfo, tarfile.TarInfo)

_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


class ArchiveError(RegardError):
    """An archive that cannot or must not be unpacked; the message names the archive and the member."""


def unpack(archive: Path, member: str, to: Path, *, largest: int = MAX_BYTES) -> Path:
    """Extract the member of that exact name to the file ``to``, atomically.

    Args:
        archive: A .zip or .tar.gz file.
        member: Name of the member, a relative path without ``..``.
        to: Path of the extracted file; the archive has no influence on it.
        largest: Most bytes that the member may unpack to.

    Raises:
        ArchiveError: The archive is damaged, or the member is missing, doubled, too large or
            not a plain file.
    """
    _refuse_unsafe_name(archive, member)
    temporary = to.with_name(f"{to.name}.unpacking-{os.getpid()}")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with _open_member(archive, member, largest) as stream, temporary.open("wb") as out:
            _copy(stream, out, largest, f"{archive}: {member}")
        temporary.replace(to)
    except _BROKEN as error:
        raise ArchiveError(f"{archive} is damaged or not a supported archive: {error}") from error
    except OSError as error:  # a damaged gzip stream is one of them
        raise ArchiveError(
            f"{archive}: {member} cannot be unpacked to {to}: {error.strerror or error}"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    return to


def _refuse_unsafe_name(archive: Path, member: str) -> None:
    parts = PurePosixPath(member.replace("\\", "/"))
    windows_drive = len(member) > 1 and member[1] == ":"
    if not member or parts.is_absolute() or windows_drive or ".." in parts.parts or "\0" in member:
        raise ArchiveError(f"{archive}: the name {member!r} leaves the archive; it must be a path inside it")


@contextmanager
def _open_member(archive: Path, member: str, largest: int) -> Iterator[IO[bytes]]:
    with archive.open("rb") as stream:
        gzipped = stream.read(2) == b"\x1f\x8b"
    # checked first: a zip inside a tar.gz can make the whole file look like a zip
    opened = _open_in_zip if not gzipped and zipfile.is_zipfile(archive) else _open_in_tar
    with opened(archive, member, largest) as content:
        yield content


@contextmanager
def _open_in_zip(archive: Path, member: str, largest: int) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(archive) as opened:
        matches = [info for info in opened.infolist() if info.filename == member]
        info = _only(matches, archive, member)
        kind = stat.S_IFMT(info.external_attr >> 16)
        if info.is_dir() or kind not in (0, stat.S_IFREG):
            raise ArchiveError(
                f"{archive}: {member} is a link, folder or device; only a plain file is unpacked"
            )
        _refuse_large(archive, member, info.file_size, largest)
        with opened.open(info) as stream:
            yield stream


@contextmanager
def _open_in_tar(archive: Path, member: str, largest: int) -> Iterator[IO[bytes]]:
    with tarfile.open(archive, "r:*") as opened:
        matches: list[tarfile.TarInfo] = []
        scanned = 0
        for info in opened:
            scanned += info.size
            if scanned > MAX_SCANNED_BYTES:
                raise ArchiveError(
                    f"{archive} unpacks to more than {MAX_SCANNED_BYTES:,} bytes, which is refused"
                )
            if info.name == member:
                matches.append(info)
        info = _only(matches, archive, member)
        if not info.isreg():
            raise ArchiveError(
                f"{archive}: {member} is a link, folder or device; only a plain file is unpacked"
            )
        _refuse_large(archive, member, info.size, largest)
        stream = opened.extractfile(info)
        if stream is None:
            raise ArchiveError(f"{archive}: {member} has no content")
        with stream:
            yield stream


def _only(matches: list[_Info], archive: Path, member: str) -> _Info:
    if not matches:
        raise ArchiveError(f"{archive} has no member {member}")
    if len(matches) > 1:
        raise ArchiveError(f"{archive} holds {member} {len(matches)} times; it must hold it once")
    return matches[0]


def _refuse_large(archive: Path, member: str, size: int, largest: int) -> None:
    if size > largest:
        raise ArchiveError(f"{archive}: {member} unpacks to {size:,} bytes; allowed are {largest:,}")


def _copy(stream: IO[bytes], out: IO[bytes], largest: int, what: str) -> None:
    written = 0
    while block := stream.read(_BLOCK):
        written += len(block)
        if written > largest:  # the size in the archive's directory is wrong
            raise ArchiveError(f"{what} unpacks to more than the {largest:,} bytes allowed")
        out.write(block)
