"""Files from the web into the cache: mirrors in turn, resumed where it stopped, checked, then put in place."""

import contextlib
import errno
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regard import storage
from regard.data.progress import Progress, say
from regard.data.web import Response, WebFailure, failure, open_url, shown
from regard.errors import RegardError

_BLOCK = 1 << 16


class DownloadError(RegardError):
    """Something that could not be downloaded: the sentence lists every address tried and why it failed."""


@dataclass(frozen=True)
class Remote:
    """A file that can be had from one of several addresses."""

    name: str
    mirrors: tuple[str, ...]
    sha256: str | None = None
    """Where it is not known, it is recorded beside the file at the first download and demanded afterwards."""
    md5: str | None = None
    """A second-best digest, where the publisher gives only this one."""
    check: Callable[[Path], None] | None = None
    """Raises RegardError where the content is not what it should be (a log-in page instead of a corpus)."""
    largest: int = 1 << 30


@dataclass(frozen=True)
class Patience:
    """How long to wait and how often to try; the pause doubles after each attempt."""

    timeout: float = 30.0
    attempts: int = 4
    pause: float = 1.0
    sleep: Callable[[float], None] = field(default=time.sleep)


def fetch(remote: Remote, folder: Path, *, patience: Patience | None = None) -> Path:
    """The file in ``folder``: at once if it is there and intact, else from the first mirror that has it."""
    place = folder / remote.name
    with _disk_faults(folder):
        if intact(remote, folder):
            return place
        # The processes of one training do not write the same part file.
        with storage.file_lock(folder / ".lock"):
            if not intact(remote, folder):  # otherwise another process was faster
                part = _from_mirrors(remote, folder, patience or Patience())
                _record_digest(remote, folder, part)
                part.replace(place)
    return place


def intact(remote: Remote, folder: Path) -> bool:
    """True when the file is in the folder and has the digest it should have, or had when it came."""
    place = folder / remote.name
    return place.is_file() and _wrong_digest(remote, folder, place) is None


def _from_mirrors(remote: Remote, folder: Path, patience: Patience) -> Path:
    part = folder / f"{remote.name}.part"
    failures = []
    for url in remote.mirrors:
        if not (remote.sha256 or remote.md5):
            part.unlink(missing_ok=True)  # without a digest nothing proves that two halves fit together
        try:
            _from_mirror(url, remote, part, patience)
            return part
        except WebFailure as error:
            failures.append(f"{shown(url)} ({error})")
    raise DownloadError(f"{remote.name} could not be downloaded; tried {'; '.join(failures) or 'no address'}")


def _from_mirror(url: str, remote: Remote, part: Path, patience: Patience) -> None:
    for attempt in range(1, patience.attempts + 1):
        resumed = _size(part) > 0
        try:
            _receive(url, remote, part, patience.timeout)
            _refuse_wrong_content(remote, part)
            return
        except _WrongContent as error:
            part.unlink(missing_ok=True)
            if not resumed:  # a part from earlier may have been the fault; a whole file from here was not
                raise WebFailure(str(error)) from error
        except WebFailure as error:
            if not error.passing or attempt == patience.attempts:
                raise
            wait = patience.pause * 2 ** (attempt - 1)
            say(f"{remote.name}: {error}; trying again in {wait:g} s")
            patience.sleep(wait)
    raise WebFailure("the content was wrong each time")


def _receive(url: str, remote: Remote, part: Path, timeout: float) -> None:
    """Download the rest of ``part``, or all of it where the server does not continue."""
    start = _size(part)
    headers = {"Range": f"bytes={start}-"} if start else {}
    try:
        response = open_url(url, headers=headers, timeout=timeout)
    except WebFailure as error:
        if error.status == 416 and start:  # nothing after our last byte: complete, or not this file at all
            return
        raise
    try:
        if start and not _continues(response, start):
            start = 0
        _write(response, part, start, _length(response, start), remote)
    finally:
        response.close()


def _continues(response: Response, start: int) -> bool:
    span = response.headers.get("Content-Range") or ""
    return response.status == 206 and span.startswith(f"bytes {start}-")


def _length(response: Response, start: int) -> int | None:
    length = response.headers.get("Content-Length") or ""
    return start + int(length) if length.isdecimal() else None


def _write(response: Response, part: Path, start: int, total: int | None, remote: Remote) -> None:
    done = start
    with part.open("ab" if start else "wb") as out, Progress(remote.name, total) as progress:
        while block := _next_block(response):
            out.write(block)
            done += len(block)
            progress.at(done)
            if done > remote.largest:
                raise WebFailure(f"it is larger than the {remote.largest:,} bytes allowed")
    if total is not None and done < total:
        raise WebFailure(f"the connection ended after {done:,} of {total:,} bytes", passing=True)


def _next_block(response: Response) -> bytes:
    try:
        return response.read(_BLOCK)
    except Exception as error:
        raise failure(error) from error


class _WrongContent(Exception):
    pass


def _refuse_wrong_content(remote: Remote, part: Path) -> None:
    wrong = _wrong_digest(remote, part.parent, part)
    if wrong:
        raise _WrongContent(wrong)
    if remote.check:
        try:
            remote.check(part)
        except RegardError as error:
            raise _WrongContent(str(error).rstrip(".")) from error


def _wrong_digest(remote: Remote, folder: Path, path: Path) -> str | None:
    """Why the file at ``path`` is not the one expected, or None when it is (or nothing is known of it)."""
    recorded = _recorded_digest(remote, folder)
    if remote.sha256 and (got := storage.digest(path)) != remote.sha256:
        return f"its SHA-256 is {got[:12]}…, expected {remote.sha256[:12]}…"
    if remote.md5 and (got := storage.digest(path, "md5")) != remote.md5:
        return f"its MD5 is {got}, expected {remote.md5}"
    if recorded and not remote.sha256 and (got := storage.digest(path)) != recorded:
        note = _note(remote, folder)
        return f"its SHA-256 is not the one recorded at the first download; delete {note} to accept it"
    return None


def _note(remote: Remote, folder: Path) -> Path:
    return folder / f"{remote.name}.sha256"


def _recorded_digest(remote: Remote, folder: Path) -> str | None:
    note = _note(remote, folder)
    words = note.read_text("utf-8").split() if note.is_file() else []
    return words[0] if words else None


def _record_digest(remote: Remote, folder: Path, part: Path) -> None:
    """In the form ``sha256sum --check`` reads."""
    if not remote.sha256 and not _recorded_digest(remote, folder):
        _note(remote, folder).write_text(f"{storage.digest(part)}  {remote.name}\n", "utf-8")
        known = "its MD5 is the published one" if remote.md5 else "no digest of it is published"
        say(f"{remote.name}: {known}; its SHA-256 is recorded now and demanded from here on")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextlib.contextmanager
def _disk_faults(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else (error.strerror or str(error)).lower()
        raise DownloadError(
            f"nothing can be kept in {folder}: {why}; choose another folder with REGARD_CACHE or --cache"
        ) from error
