"""Downloads into the cache: several mirrors, resumed, checked by digest, put in place atomically."""

import contextlib
import errno
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from regard import storage
from regard.data.http_client import HttpError, Response, http_error, open_url, redacted
from regard.errors import RegardError

_BLOCK = 1 << 16
_UPDATE_SECONDS = 0.2  # seconds between two updates of the progress line


class DownloadError(RegardError):
    """A failed download; the message lists every URL that was tried with the reason it failed."""


@dataclass(frozen=True)
class Remote:
    """A file that is available from one or several URLs."""

    name: str
    mirrors: tuple[str, ...]
    sha256: str | None = None
    """If None, it is recorded next to the file at the first download and required afterwards."""
    md5: str | None = None
    """Used where the publisher gives no SHA-256."""
    check: Callable[[Path], None] | None = None
    """Raises RegardError if the content is wrong (a log-in page instead of a corpus)."""
    largest: int = 1 << 30


@dataclass(frozen=True)
class RetryPolicy:
    """Timeout and retries; the pause doubles after each attempt."""

    timeout: float = 30.0
    attempts: int = 4
    pause: float = 1.0
    sleep: Callable[[float], None] = field(default=time.sleep)


def fetch(remote: Remote, folder: Path, *, retry: RetryPolicy | None = None) -> Path:
    """The path of the file in ``folder``, downloaded from the first mirror that has it unless it is intact.

    Args:
        remote: The file.
        folder: Folder of the download.
        retry: Timeout and retries.

    Raises:
        DownloadError: No mirror provides the file, or it cannot be written.
    """
    path = folder / remote.name
    with _disk_errors(folder):
        if intact(remote, folder):
            return path
        # the processes of one training run must not write the same part file
        with storage.file_lock(folder / ".lock"):
            if not intact(remote, folder):  # another process may have downloaded it meanwhile
                part = _from_mirrors(remote, folder, retry or RetryPolicy())
                _record_digest(remote, folder, part)
                part.replace(path)
    return path


def intact(remote: Remote, folder: Path) -> bool:
    """Whether the file is in the folder and has its published or recorded digest."""
    path = folder / remote.name
    return path.is_file() and _wrong_digest(remote, folder, path) is None


def _from_mirrors(remote: Remote, folder: Path, retry: RetryPolicy) -> Path:
    part = folder / f"{remote.name}.part"
    failures = []
    for url in remote.mirrors:
        if not (remote.sha256 or remote.md5):
            part.unlink(missing_ok=True)  # without a digest, parts of two downloads cannot be checked
        try:
            _from_mirror(url, remote, part, retry)
            return part
        except HttpError as error:
            failures.append(f"{redacted(url)} ({error})")
    raise DownloadError(f"{remote.name} could not be downloaded; tried {'; '.join(failures) or 'no URL'}")


def _from_mirror(url: str, remote: Remote, part: Path, retry: RetryPolicy) -> None:
    for attempt in range(1, retry.attempts + 1):
        resumed = _size(part) > 0
        try:
            _receive(url, remote, part, retry.timeout)
            _refuse_wrong_content(remote, part)
            return
        except _WrongContent as error:
            part.unlink(missing_ok=True)
            if not resumed:  # a resumed file may contain a wrong part, a new one is wrong itself
                raise HttpError(str(error)) from error
        except HttpError as error:
            if not error.transient or attempt == retry.attempts:
                raise
            wait = retry.pause * 2 ** (attempt - 1)
            log(f"{remote.name}: {error}; retrying in {wait:g} s")
            retry.sleep(wait)
    raise HttpError("the content was wrong in every attempt")


def _receive(url: str, remote: Remote, part: Path, timeout: float) -> None:
    """Download the rest of ``part``, or all of it if the server does not support ranges."""
    start = _size(part)
    headers = {"Range": f"bytes={start}-"} if start else {}
    try:
        response = open_url(url, headers=headers, timeout=timeout)
    except HttpError as error:
        if error.status == 416 and start:  # no bytes after the last one: complete, or another file
            return
        raise
    try:
        if start and not _is_resumed(response, start):
            start = 0
        _write(response, part, start, _length(response, start), remote)
    finally:
        response.close()


def _is_resumed(response: Response, start: int) -> bool:
    content_range = response.headers.get("Content-Range") or ""
    return response.status == 206 and content_range.startswith(f"bytes {start}-")


def _length(response: Response, start: int) -> int | None:
    length = response.headers.get("Content-Length") or ""
    return start + int(length) if length.isdecimal() else None


def _write(response: Response, part: Path, start: int, total: int | None, remote: Remote) -> None:
    done = start
    with part.open("ab" if start else "wb") as out, DownloadProgress(remote.name, total) as progress:
        while block := _next_block(response):
            out.write(block)
            done += len(block)
            progress.update(done)
            if done > remote.largest:
                raise HttpError(f"it is larger than the {remote.largest:,} bytes allowed")
    if total is not None and done < total:
        raise HttpError(f"the connection ended after {done:,} of {total:,} bytes", transient=True)


def _next_block(response: Response) -> bytes:
    try:
        return response.read(_BLOCK)
    except Exception as error:
        raise http_error(error) from error


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
            raise _WrongContent(str(error)) from error


def _wrong_digest(remote: Remote, folder: Path, path: Path) -> str | None:
    """Why the digest of the file at ``path`` is wrong; None if it is right or unknown."""
    recorded = _recorded_digest(remote, folder)
    if remote.sha256 and (got := storage.digest(path)) != remote.sha256:
        return f"its SHA-256 is {got[:12]}…, expected {remote.sha256[:12]}…"
    if remote.md5 and (got := storage.digest(path, "md5")) != remote.md5:
        return f"its MD5 is {got}, expected {remote.md5}"
    if recorded and not remote.sha256 and (got := storage.digest(path)) != recorded:
        digest_path = _digest_path(remote, folder)
        return f"its SHA-256 is not the one recorded at the first download; delete {digest_path} to accept it"
    return None


def _digest_path(remote: Remote, folder: Path) -> Path:
    return folder / f"{remote.name}.sha256"


def _recorded_digest(remote: Remote, folder: Path) -> str | None:
    digest_path = _digest_path(remote, folder)
    words = digest_path.read_text("utf-8").split() if digest_path.is_file() else []
    return words[0] if words else None


def _record_digest(remote: Remote, folder: Path, part: Path) -> None:
    """Record the SHA-256 in the format of ``sha256sum --check``."""
    if not remote.sha256 and not _recorded_digest(remote, folder):
        _digest_path(remote, folder).write_text(f"{storage.digest(part)}  {remote.name}\n", "utf-8")
        known = "its MD5 is the published one" if remote.md5 else "no digest of it is published"
        log(f"{remote.name}: {known}; its SHA-256 is recorded now and required from here on")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextlib.contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else (error.strerror or str(error)).lower()
        raise DownloadError(
            f"{folder} cannot be written: {why}; choose another folder with REGARD_CACHE or --cache"
        ) from error


def log(message: str) -> None:
    """Log a message on standard error."""
    print(message, file=sys.stderr, flush=True)


class DownloadProgress:
    """Progress of one download: one updated line on a terminal, one final line in a log.

    Used as ``with DownloadProgress(name, total) as progress: progress.update(done)``.
    """

    def __init__(self, name: str, total: int | None) -> None:
        self._name, self._total = name, total
        self._done = 0
        self._last = 0.0

    def __enter__(self) -> "DownloadProgress":
        return self

    def update(self, done: int) -> None:
        self._done = done
        if sys.stderr.isatty() and time.monotonic() - self._last > _UPDATE_SECONDS:
            self._last = time.monotonic()
            print(f"\r{self}\x1b[K", end="", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        start, end = ("\r", "\x1b[K") if sys.stderr.isatty() else ("", "")
        log(f"{start}{self}{end}")

    def __str__(self) -> str:
        done = f"{self._done / 1e6:,.1f}"
        if not self._total:
            return f"{self._name}: {done} MB"
        return f"{self._name}: {done} of {self._total / 1e6:,.1f} MB ({self._done / self._total:.0%})"
