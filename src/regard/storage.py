"""Files that are complete or not there at all, and folders that one process writes at a time."""

import errno
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from regard.errors import DiskError, RegardError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def cache_folder() -> Path:
    """Where downloads, and what can be made again, are kept.

    $REGARD_CACHE, else $XDG_CACHE_HOME/regard, else ~/.cache/regard.
    """
    if own := os.environ.get("REGARD_CACHE"):
        return Path(own).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".cache") / "regard"


def write(path: Path, content: bytes) -> None:
    """Put the content at `path`: aside, flushed, renamed. Whoever reads finds the old file or the new one."""
    with atomic_path(path) as part:
        part.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """`write` for text, as UTF-8."""
    write(path, text.encode("utf-8"))


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A place beside `path` to write a file or a folder at; it takes the place of `path` when the block ends.

    What could not be written leaves nothing behind, and what was at `path` stays.
    """
    part = path.with_name(f".{path.name}.part")
    old = path.with_name(f".{path.name}.old")
    try:
        remove(part)
        remove(old)
        yield part
        flush(part)
        if part.is_dir() and path.exists():
            path.rename(old)  # a folder cannot be renamed over another
        part.replace(path)
        flush_entry(path.parent)  # the name; what lies beside it is not ours to wait for
        remove(old)
    except OSError as problem:
        with suppress(OSError):
            remove(part)
        raise DiskError(f"{path} cannot be written: {reason(problem)}") from None
    except BaseException:  # what was to be written was given up
        with suppress(OSError):
            remove(part)
        raise


def remove(path: Path) -> None:
    """Remove a file or a folder, whichever it is, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """See to it that a file, or a folder and all in it, is on the disk and not only on its way there."""
    if path.is_dir():
        for entry in path.iterdir():
            flush(entry)
    flush_entry(path)


def flush_entry(path: Path) -> None:
    """`flush` for one file, or for the names in one folder.

    Windows opens no folders and flushes only what is open for writing.
    """
    windows = sys.platform == "win32"
    if windows and path.is_dir():
        return
    try:
        descriptor = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    except PermissionError:  # a file that may only be read
        if windows:
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot; they are not full
            raise
    finally:
        os.close(descriptor)


def digest(path: Path, algorithm: str = "sha256") -> str:
    """The digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.new, algorithm, usedforsecurity=False)).hexdigest()


def reason(problem: OSError) -> str:
    """Why the system refused, in a few words."""
    if problem.errno in FULL:
        return "the disk is full"
    return (problem.strerror or str(problem)).lower()


def inside(folder: Path, name: str) -> Path:
    """The file `name` of a folder from a stranger: a plain file, reached without leaving the folder."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise RegardError(f"{path} leads out of the folder, to {path.resolve()}; it is not opened")
    if path.exists() and not path.is_file():
        raise RegardError(f"{path} is not a plain file; it is not opened")
    return path


@contextmanager
def exclusive_lock(folder: Path, sentence: Callable[[str], str]) -> Iterator[None]:
    """Hold the folder's lock for the block; where another process has it, `sentence(its number)` is raised.

    The system gives a lock back when its process ends, however it ends.
    """
    try:
        import fcntl
    except ImportError:  # Windows has none
        yield
        return
    path = folder / ".lock"
    while True:
        try:
            file = path.open("a+")
        except OSError as problem:
            raise DiskError(f"{path} cannot be written: {reason(problem)}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            with file:
                file.seek(0)
                raise RegardError(sentence(file.read().strip() or "unknown")) from None
        if same_file(path, file.fileno()):
            break
        file.close()  # its owner removed it between our opening and our locking: take the next one
    with file:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def file_lock(lock: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lock file for the block; where another has it, wait, or else give False."""
    try:
        import fcntl
    except ImportError:  # Windows has none
        yield True
        return
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
