"""The native library: compiled on this machine on first use, cached, verified and loaded.

Without it everything works through PyTorch, only slower. A cached library is loaded only if its owner is the
current user or root, nobody else may write to it or to its folder, and its SHA-256 is the one stored beside it.
"""

import ctypes
import hashlib
import os
import platform
import secrets
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.disk import cache_folder, digest
from regard.engine.header import HEADER, header

SOURCES = sorted(HEADER.parent.glob("*.c"))
FLAGS = (
    *("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
    *("-fPIC", "-shared", "-fopenmp", "-fvisibility=hidden"),
)
TARGETS = ("-march=native", "")
"""For this processor; for any processor of its architecture where that does not run."""
TIMEOUT = 60
"""Seconds for the compiler and for the trial run; compiling takes about two."""
SLOWER = "PyTorch operations are used, which are slower"


WITHOUT_STATUS = {"works"}
"""Functions whose result is a number; every other int is a status of memory.c."""
FAILURES: dict[int, tuple[type[Exception], str]] = {
    1: (MemoryError, "Native engine: out of memory in {}."),
    2: (ValueError, "Native engine: sizes overflow or are out of range in {}."),
    3: (RuntimeError, "Native engine: internal error in {}, its working memory was sized too small."),
}


def raise_failure(code: int, function: Any, arguments: tuple[Any, ...]) -> int:
    """Raise what a return code stands for; ctypes calls this after every function that returns one.

    Raises:
        MemoryError: an allocation failed.
        ValueError: the sizes given do not fit into memory's address space, or are negative.
        RuntimeError: the engine's own computation of a size is wrong.
    """
    if code:
        kind, sentence = FAILURES.get(code, (RuntimeError, "Native engine: unknown return code from {}."))
        raise kind(sentence.format(function.__name__))
    return code


@cache
def kernels() -> ctypes.CDLL | None:
    """The native library with the types of its functions declared; None where there is none."""
    path, _ = find_library()
    if path is None:
        return None
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in header().functions.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
        if result is ctypes.c_int and name not in WITHOUT_STATUS:
            function.errcheck = raise_failure
    return library


def library() -> ctypes.CDLL:
    """The compiled kernels, for callers whose plan has found that they are there."""
    found = kernels()
    if found is None:
        raise RuntimeError(f"the native engine is not available: {find_library()[1]}")
    return found


def data_ptr(tensor: Tensor) -> int:
    """Where a tensor's numbers lie; the caller keeps the tensor as long as the kernel runs."""
    return tensor.data_ptr()


def refuse_second_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse second derivatives in the backward function of an operator."""

    @wraps(backward)
    def checked(ctx: Any, *upstream: Tensor) -> Any:
        if torch.is_grad_enabled():  # as with create_graph=True
            raise RuntimeError(
                "the native engine has no second derivatives (create_graph=True); "
                "set REGARD_NATIVE=0 to compute them with PyTorch"
            )
        return backward(ctx, *upstream)

    return checked


def optional_ptr(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


@cache
def find_library() -> tuple[Path | None, str]:
    """Path of the native library, or None, and a sentence about it.

    Environment:
        REGARD_NATIVE: folder for compiled libraries in place of the cache; 0 switches the native engine off.
        REGARD_CFLAGS: further compiler flags, such as -fsanitize=address.
        CC: the C compiler.
    """
    named = os.environ.get("REGARD_NATIVE", "")
    if named == "0":
        return None, "switched off by REGARD_NATIVE=0"
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None, f"no C compiler found: {SLOWER}"
    folder = Path(named) if named else cache_folder() / "native"
    why = prepare_folder(folder, tighten=not named)
    if why:
        return None, f"{why}: {SLOWER}"
    for target in TARGETS:
        path = folder / f"{key(compiler, target)}.so"
        if not is_intact(path):
            with locked(folder):  # a second process waits here, and finds what the first one compiled
                why = "" if is_intact(path) else compiled(compiler, target, path)
        if why:
            continue
        why = load_error(path)
        if why:
            return None, f"the native library {path} cannot be loaded ({why}): {SLOWER}"
        return path, f"compiled by {Path(compiler).name} {target}".rstrip()
    return None, f"the native library could not be compiled ({why}): {SLOWER}"


def prepare_folder(folder: Path, *, tighten: bool) -> str:
    """Create the folder where it is missing; why it cannot be trusted, or an empty string.

    With `tighten`, a folder of the current user loses its write permission for group and others: regard's own
    cache may have been created under a umask that allows it.
    """
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        status = folder.stat()
        if tighten and os.name == "posix" and status.st_uid == os.geteuid() and may_others_write(status):
            folder.chmod(stat.S_IMODE(status.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
            status = folder.stat()
    except OSError as problem:
        return f"the folder {folder} cannot be used for the native library ({problem.strerror or problem})"
    if not is_ours(status):
        return f"the folder {folder} belongs to another user, so no native library is loaded from it"
    if may_others_write(status):
        return (
            f"other users may write to the folder {folder} (chmod go-w), so no native library is loaded from it"
        )
    return ""


def is_ours(status: os.stat_result) -> bool:
    """Whether the owner is the current user or root; always where there are no owners."""
    return os.name != "posix" or status.st_uid in (os.geteuid(), 0)


def may_others_write(status: os.stat_result) -> bool:
    return os.name == "posix" and bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def digest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def is_intact(path: Path) -> bool:
    """Whether a cached library is ours and the one that was tried; one that is not is compiled again."""
    try:
        for each in (path, digest_path(path)):
            status = each.lstat()
            if not stat.S_ISREG(status.st_mode) or not is_ours(status) or may_others_write(status):
                return False
        return digest_path(path).read_text("ascii").strip() == digest(path)
    except (OSError, ValueError):
        return False


def load_error(path: Path) -> str:
    """Why the dynamic linker refuses a library, or an empty string."""
    try:
        ctypes.CDLL(str(path))
    except OSError as problem:
        return str(problem)
    return ""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; without one where the system or the file system has none."""
    descriptor = -1
    try:
        with suppress(ImportError, OSError):
            import fcntl

            descriptor = os.open(folder, os.O_RDONLY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def key(compiler: str, target: str) -> str:
    """Changes with the source, the flags, the compiler, the C library and the processor."""
    sources = [path.read_text("utf-8") for path in (*SOURCES, HEADER)]
    versions = [compiler, compiler_version(compiler), *platform.libc_ver()]
    parts = [*sources, *versions, target, *flags(), platform.machine(), processor()]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def flags() -> list[str]:
    return [*FLAGS, *shlex.split(os.environ.get("REGARD_CFLAGS", ""))]


@cache
def compiler_version(compiler: str) -> str:
    """The first line of `cc --version`; empty where the compiler has none."""
    try:
        ran = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return (ran.stdout.splitlines() or [""])[0]


def processor() -> str:
    """The processor's features: a cache may be shared by machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def compiled(compiler: str, target: str, path: Path) -> str:
    """Compile the library, run it once in a child process, and put it into the cache with its digest.

    The child process may be ended by an illegal instruction. Files are written under names of their own and
    renamed, the digest last.

    Returns:
        Why it did not work, or an empty string.
    """
    part = path.with_name(f"{path.stem}.{os.getpid()}.{secrets.token_hex(4)}.part")
    digest_part = digest_path(part)
    command = [compiler, *flags(), *filter(None, [target]), *map(str, SOURCES), "-lm", "-o", str(part)]
    trial = f"import ctypes, sys; sys.exit(0 if ctypes.CDLL({str(part)!r}).works() else 1)"
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        made = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        if made.returncode:
            return (made.stderr.strip().splitlines() or ["the compiler failed"])[-1]
        ran = subprocess.run([sys.executable, "-c", trial], capture_output=True, timeout=TIMEOUT, check=False)
        if ran.returncode:
            return f"its trial run ended with {ran.returncode}"
        digest_part.write_text(digest(part) + "\n", "ascii")
        for each, place in ((part, path), (digest_part, digest_path(path))):
            each.chmod(0o755 if each is part else 0o644)  # whatever the umask
            each.replace(place)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    finally:
        for each in (part, digest_part):
            each.unlink(missing_ok=True)
    return ""
