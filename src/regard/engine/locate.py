"""Which native library this process loads: shipped or compiled here, for the best target that runs.

The best target that the processor announces is taken if a trial in a child process succeeds; the result is
remembered in the cache. A library is loaded only if nobody but its owner may write to it and to its folder, and
its SHA-256 is the one written down. Without a library everything works through PyTorch, only slower.
"""

import ctypes
import hashlib
import os
import secrets
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from regard.engine import build
from regard.engine.build import Target
from regard.engine.openmp import load_runtime
from regard.errors import RegardError
from regard.storage import cache_folder, digest

SLOWER = "PyTorch operations are used, which are slower"
TRIAL = """
import ctypes, sys
if sys.argv[2]:
    ctypes.CDLL(sys.argv[2], ctypes.RTLD_GLOBAL)
sys.exit(0 if ctypes.CDLL(sys.argv[1]).works() else 1)
"""
TRIAL_TIMEOUT = 60
"""Seconds; a trial takes about a twentieth of one."""
RUNS, ILLEGAL = "runs", "its trial run ended with an illegal instruction"
"""Results of a trial that are remembered: those that the library and the processor alone decide."""


@cache
def find_library() -> tuple[Path | None, str]:
    """Path of the native library, or None, and a sentence about it.

    Environment:
        REGARD_NATIVE: 0 switches the native engine off; a folder: compile into it, use no shipped library.
        REGARD_TARGET: x86-64, x86-64-v3 or x86-64-v4 (on ARM armv8-a), whatever the processor announces.
        REGARD_CFLAGS: further compiler flags, such as -fsanitize=address; no shipped library is used.
        CC: the C compiler.

    Raises:
        RegardError: REGARD_TARGET is not a target of this machine.
    """
    named = os.environ.get("REGARD_NATIVE", "")
    if named == "0":
        return None, "switched off by REGARD_NATIVE=0"
    if sys.platform != "linux":
        return None, f"the native engine is built on Linux only: {SLOWER}"
    candidates = candidate_targets()
    runtime, why = load_runtime()
    if why:
        return None, f"{why}: {SLOWER}"
    folder = Path(named) if named else cache_folder() / "native"
    aside = ""
    if not named and not build.extra_flags():
        libraries, why = shipped_libraries()
        problems = []
        for target in candidates if not why else ():
            if target.name not in libraries:
                continue
            path = build.SHIPPED / target.file
            # The cache is a convenience here: where it cannot be used, the trial is run each time.
            notes = folder if not prepare_folder(folder, tighten=True) else None
            if problem := trial(path, libraries[target.name], runtime, notes) or load_error(path):
                problems.append(f"{target.name}: {problem}")
                continue
            return path, f"shipped for {target.name}{remark(problems)}"
        if problems:
            return None, f"no shipped library runs here ({'; '.join(problems)}): {SLOWER}"
        aside = why
    return compiled_library(folder, candidates, runtime, aside, tighten=not named)


def compiled_library(
    folder: Path, candidates: Sequence[Target], runtime: str, aside: str, *, tighten: bool
) -> tuple[Path | None, str]:
    """A library from the folder, compiled now if it is missing; `aside` is why no shipped one is used."""
    compiler = build.find_compiler()
    if compiler is None:
        return None, f"no C compiler found{remark([aside])}: {SLOWER}"
    why = prepare_folder(folder, tighten=tighten)
    if why:
        return None, f"{why}: {SLOWER}"
    problems: list[str] = []
    for target in candidates:
        path = folder / f"engine-{target.name}-{build.key(compiler, target)}.so"
        why = ""
        if not is_intact(path):
            with locked(folder):  # a second process waits here, and finds what the first one compiled
                why = "" if is_intact(path) else compiled(compiler, target, path)
        why = why or trial(path, digest(path), runtime, folder) or load_error(path)
        if not why:
            return path, f"compiled by {Path(compiler).name} for {target.name}{remark([aside, *problems])}"
        problems.append(f"{target.name}: {why}")
    return None, f"the native library could not be compiled{remark([aside, *problems])}: {SLOWER}"


def remark(problems: Sequence[str]) -> str:
    known = [each for each in problems if each]
    return f" ({'; '.join(known)})" if known else ""


def candidate_targets() -> tuple[Target, ...]:
    """Targets that the processor announces, the best one first; the one that $REGARD_TARGET names."""
    targets = build.targets()
    if forced := os.environ.get("REGARD_TARGET", ""):
        chosen = tuple(target for target in targets if target.name == forced)
        if not chosen:
            allowed = ", ".join(target.name for target in targets)
            raise RegardError(f"REGARD_TARGET={forced} is not a target of this machine; allowed: {allowed}")
        return chosen
    announced = set(processor().split())
    return tuple(target for target in targets if target.features <= announced)


@cache
def processor() -> str:
    """The features that Linux announces for this processor; empty where it announces none."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    return next((line.partition(":")[2] for line in lines if line.startswith(("flags", "Features"))), "")


# ---- Trials. ----


def trial(path: Path, sha256: str, runtime: str, notes: Path | None) -> str:
    """Run a library once in a child process, which an illegal instruction may end.

    Args:
        sha256: The library's digest; with the processor's features it identifies the trial.
        runtime: The OpenMP runtime to load first.
        notes: Folder in which results are remembered, if there is one.

    Returns:
        Why the library does not run here, or an empty string.
    """
    identity = hashlib.blake2b(f"{sha256}\0{processor()}".encode(), digest_size=12).hexdigest()
    note = None if notes is None else notes / f"{identity}.trial"
    result = remembered(note)
    if not result:
        result = run_trial(path, runtime)
        if note is not None and result in (RUNS, ILLEGAL):
            remember(note, result)
    return "" if result == RUNS else result


def run_trial(path: Path, runtime: str) -> str:
    command = [sys.executable, "-I", "-S", "-c", TRIAL, str(path), runtime]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=TRIAL_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"its trial run failed: {problem}"
    if ran.returncode == -signal.SIGILL:
        return ILLEGAL
    if ran.returncode:
        last = (ran.stderr.decode(errors="replace").strip().splitlines() or [""])[-1]
        return f"its trial run ended with {ran.returncode}{remark([last])}"
    return RUNS


def remembered(note: Path | None) -> str:
    try:
        if note is None or not may_be_trusted(note.lstat()):
            return ""
        result = note.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
    return result if result in (RUNS, ILLEGAL) else ""


def remember(note: Path, result: str) -> None:
    """Written under another name and renamed; a disk that is full costs the next process a trial."""
    part = note.with_name(f"{note.stem}.{secrets.token_hex(4)}.part")
    with suppress(OSError):
        try:
            part.write_text(result + "\n", "ascii")
            part.chmod(0o644)  # whatever the umask
            part.replace(note)
        finally:
            part.unlink(missing_ok=True)


# ---- What may be loaded. ----


def shipped_libraries() -> tuple[dict[str, str], str]:
    """SHA-256 of each shipped library by the name of its target, and why none can be used.

    All of them are checked, so that a damaged installation is not passed over in silence.
    """
    folder = build.SHIPPED
    if not (folder / build.MANIFEST).exists():
        return {}, ""
    try:
        tighten_shipped(folder)
        manifest_path = folder / build.MANIFEST
        for path, is_kind in ((folder, stat.S_ISDIR), (manifest_path, stat.S_ISREG)):
            if why := shipped_refusal(path, is_kind(path.lstat().st_mode)):
                return {}, why
        manifest = build.read_manifest(folder)
        if manifest["sources"] != build.source_digest():
            return {}, "the shipped library was built from other C sources"
        libraries: dict[str, str] = {}
        for target in build.targets():
            for each in manifest["libraries"]:
                if each["target"] != target.name:
                    continue
                path = folder / target.file  # whatever file the manifest names
                if why := shipped_refusal(path, stat.S_ISREG(path.lstat().st_mode)):
                    return {}, why
                if digest(path) != each["sha256"]:
                    return {}, f"{path} is not the file that was shipped"
                libraries[target.name] = each["sha256"]
    except OSError as problem:
        return {}, f"the shipped library cannot be read ({problem.strerror or problem})"
    except ValueError as problem:
        return {}, f"{folder / build.MANIFEST} is not a manifest ({problem})"
    return libraries, ""


def tighten_shipped(folder: Path) -> None:
    """Close the folder and its files to group and others where they are ours: pip leaves what the umask was."""
    for path in (folder, *folder.iterdir()):
        status = path.lstat()
        kept = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
        if kept and may_others_write(status) and status.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(status.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


def shipped_refusal(path: Path, is_kind: bool) -> str:
    """Why a shipped file cannot be trusted, or an empty string.

    It may also belong to the owner of this module, who decides what runs anyway.
    """
    status = path.lstat()
    if not is_kind:
        return f"{path} is not a plain file or folder"
    if not is_ours(status) and status.st_uid != Path(__file__).stat().st_uid:
        return f"{path} belongs to another user"
    if may_others_write(status):
        return f"other users may write to {path} (chmod go-w)"
    return ""


def prepare_folder(folder: Path, *, tighten: bool) -> str:
    """Create the folder where it is missing; why it cannot be trusted, or an empty string.

    With `tighten`, a folder of the current user loses its write permission for group and others: regard's own
    cache may have been created under a umask that allows it.
    """
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        status = folder.stat()
        if tighten and status.st_uid == os.geteuid() and may_others_write(status):
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
    """Whether the owner is the current user or root."""
    return status.st_uid in (os.geteuid(), 0)


def may_others_write(status: os.stat_result) -> bool:
    return bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def may_be_trusted(status: os.stat_result) -> bool:
    """Whether it is a plain file of the current user or root, to which nobody else may write."""
    return stat.S_ISREG(status.st_mode) and is_ours(status) and not may_others_write(status)


def digest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def is_intact(path: Path) -> bool:
    """Whether a cached library is ours and the one that was compiled; one that is not is compiled again."""
    try:
        if not all(may_be_trusted(each.lstat()) for each in (path, digest_path(path))):
            return False
        return digest_path(path).read_text("ascii").strip() == digest(path)
    except (OSError, ValueError):
        return False


def load_error(path: Path) -> str:
    """Why the dynamic linker refuses a library, or an empty string."""
    try:
        ctypes.CDLL(str(path))
    except OSError as problem:
        return f"it cannot be loaded ({problem})"
    return ""


# ---- Compiling into the cache. ----


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


def compiled(compiler: str, target: Target, path: Path) -> str:
    """Compile a library and put it into the cache with its digest.

    Files are written under names of their own and renamed, the digest last.

    Returns:
        Why it did not work, or an empty string.
    """
    part = path.with_name(f"{path.stem}.{os.getpid()}.{secrets.token_hex(4)}.part")
    digest_part = digest_path(part)
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        why = build.compile_libraries(compiler, {target: part}, build.extra_flags())[target]
        if why:
            return why
        digest_part.write_text(digest(part) + "\n", "ascii")
        for each, place in ((part, path), (digest_part, digest_path(path))):
            each.chmod(0o755 if each is part else 0o644)  # whatever the umask
            each.replace(place)
    except OSError as problem:
        return str(problem)
    finally:
        for each in (part, digest_part):
            each.unlink(missing_ok=True)
    return ""
