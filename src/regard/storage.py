"""Atomic writes, locks for folders, and checks of untrusted paths."""

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
    """The folder for downloads and files that can be generated again.

    $REGARD_CACHE, else $XDG_CACHE_HOME/regard, else ~/.cache/regard.
    """
    if folder := os.environ.get("REGARD_CACHE"):
        return Path(folder).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".cache") / "regard"


def write(path: Path, content: bytes) -> None:
    """Write a file atomically: readers see the old content or the new one."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """`write` for text, as UTF-8."""
    write(path, text.encode("utf-8"))


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path for a file or folder, which replaces `path` when the block ends.

    It is flushed to the disk and renamed. After an exception it is removed, and `path` is unchanged.

    Raises:
        DiskError: It cannot be written.
    """
    temporary = path.with_name(f".{path.name}.part")
    old = path.with_name(f".{path.name}.old")
    try:
        remove(temporary)
        remove(old)
        yield temporary
        flush(temporary)
        if temporary.is_dir() and path.exists():
            path.rename(old)  # a folder cannot be renamed over another
        temporary.replace(path)
        flush_entry(path.parent)  # the directory entry; other files in the folder are not flushed
        remove(old)
    except OSError as problem:
        with suppress(OSError):
            remove(temporary)
        raise DiskError(f"{path} cannot be written: {reason(problem)}") from None
    except BaseException:  # the block raised
        with suppress(OSError):
            remove(temporary)
        raise


def remove(path: Path) -> None:
    """Remove a file or folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Flush a file, or a folder and all its content, to the disk (fsync)."""
    if path.is_dir():
        for entry in path.iterdir():
            flush(entry)
    flush_entry(path)


def flush_entry(path: Path) -> None:
    """Flush one file, or the directory entries of one folder.

    Windows cannot open folders, and flushes only files that are open for writing.
    """
    windows = sys.platform == "win32"
    if windows and path.is_dir():
        return
    try:
        descriptor = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    except PermissionError:  # a read-only file
        if windows:
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP):  # not supported by some file systems
            raise
    finally:
        os.close(descriptor)


def digest(path: Path, algorithm: str = "sha256") -> str:
    """The checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.new, algorithm, usedforsecurity=False)).hexdigest()


def reason(problem: OSError) -> str:
    """The reason of a system error in a few words."""
    if problem.errno in FULL:
        return "the disk is full"
    return (problem.strerror or str(problem)).lower()


def inside(folder: Path, name: str) -> Path:
    """The path of a file in an untrusted folder.

    Raises:
        RegardError: It is not a regular file, or a link leads out of the folder.
    """
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise RegardError(f"{path} leads out of the folder, to {path.resolve()}; it is not opened")
    if path.exists() and not path.is_file():
        raise RegardError(f"{path} is not a plain file; it is not opened")
    return path


@contextmanager
def exclusive_lock(folder: Path, message: Callable[[str], str]) -> Iterator[None]:
    """Hold the lock of a folder for the block. The system releases it when the process ends.

    Args:
        folder: The folder.
        message: The error message for the id of the process that holds the lock.

    Raises:
        RegardError: Another process holds the lock.
        DiskError: The lock file cannot be written.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
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
                raise RegardError(message(file.read().strip() or "unknown")) from None
        if same_file(path, file.fileno()):
            break
        file.close()  # its owner removed it after it was opened here: try the new one
    with file:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def same_file(path: Path, descriptor: int) -> bool:
    """Whether the path is the open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def file_lock(lock: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lock file for the block; yields whether it is held, which is False only without `wait`."""
    try:
        import fcntl
    except ImportError:  # not on Windows
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
