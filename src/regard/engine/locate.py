"""Chooses the native library of this process: shipped, or compiled here, for the best target that runs.

The best target that the processor supports is used if a trial run in a child process succeeds; the result of
the trial is cached. A library is loaded only if only its owner may write to it and to its folder, and its
SHA-256 is the recorded one. Without a library everything is computed by PyTorch, more slowly.
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
sys.exit(0 if ctypes.CDLL(sys.argv[1]).self_test() else 1)
"""
TRIAL_TIMEOUT = 60
"""Seconds; a trial takes about 0.05."""
RUNS, ILLEGAL = "runs", "its trial run ended with an illegal instruction"
"""Results of a trial that are cached: those that depend only on the library and the processor."""


@cache
def find_library() -> tuple[Path | None, str]:
    """Path of the native library or None, and which library it is or why there is none.

    Environment:
        REGARD_NATIVE: 0 disables the native engine; a folder: compile into it, use no shipped library.
        REGARD_TARGET: x86-64, x86-64-v3 or x86-64-v4 (on ARM armv8-a), instead of the processor's best.
        REGARD_CFLAGS: additional compiler flags, such as -fsanitize=address; no shipped library is used.
        CC: the C compiler.

    Raises:
        RegardError: REGARD_TARGET is not a target of this machine.
    """
    setting = os.environ.get("REGARD_NATIVE", "")
    if setting == "0":
        return None, "switched off by REGARD_NATIVE=0"
    if sys.platform != "linux":
        return None, f"the native engine is built on Linux only: {SLOWER}"
    candidates = candidate_targets()
    runtime, problem = load_runtime()
    if problem:
        return None, f"{problem}: {SLOWER}"
    folder = Path(setting) if setting else cache_folder() / "native"
    shipped_problem = ""
    if not setting and not build.extra_flags():
        libraries, shipped_problem = shipped_libraries()
        problems = []
        for target in candidates if not shipped_problem else ():
            if target.name not in libraries:
                continue
            path = build.SHIPPED / target.file
            # The cache is optional here: without it, the trial is run in each process.
            cache = folder if not prepare_folder(folder, tighten=True) else None
            if problem := trial(path, libraries[target.name], runtime, cache) or load_error(path):
                problems.append(f"{target.name}: {problem}")
                continue
            return path, f"shipped for {target.name}{in_parentheses(problems)}"
        if problems:
            return None, f"no shipped library runs here ({'; '.join(problems)}): {SLOWER}"
    return compiled_library(folder, candidates, runtime, shipped_problem, tighten=not setting)


def compiled_library(
    folder: Path, candidates: Sequence[Target], runtime: str, shipped_problem: str, *, tighten: bool
) -> tuple[Path | None, str]:
    """A library in the folder, compiled if missing; `shipped_problem` is why no shipped one is used."""
    compiler = build.find_compiler()
    if compiler is None:
        return None, f"no C compiler found{in_parentheses([shipped_problem])}: {SLOWER}"
    problem = prepare_folder(folder, tighten=tighten)
    if problem:
        return None, f"{problem}: {SLOWER}"
    problems: list[str] = []
    for target in candidates:
        path = folder / f"engine-{target.name}-{build.cache_key(compiler, target)}.so"
        problem = ""
        if not is_intact(path):
            with locked(folder):  # a second process waits here, and then uses what the first one compiled
                problem = "" if is_intact(path) else compile_into_cache(compiler, target, path)
        problem = problem or trial(path, digest(path), runtime, folder) or load_error(path)
        if not problem:
            remark = in_parentheses([shipped_problem, *problems])
            return path, f"compiled by {Path(compiler).name} for {target.name}{remark}"
        problems.append(f"{target.name}: {problem}")
    remark = in_parentheses([shipped_problem, *problems])
    return None, f"the native library could not be compiled{remark}: {SLOWER}"


def in_parentheses(problems: Sequence[str]) -> str:
    """The problems that are not empty, in parentheses after a space; an empty string if there are none."""
    remaining = [problem for problem in problems if problem]
    return f" ({'; '.join(remaining)})" if remaining else ""


def candidate_targets() -> tuple[Target, ...]:
    """Targets that the processor supports, best first; only $REGARD_TARGET if that is set."""
    targets = build.targets()
    if forced := os.environ.get("REGARD_TARGET", ""):
        chosen = tuple(target for target in targets if target.name == forced)
        if not chosen:
            allowed = ", ".join(target.name for target in targets)
            raise RegardError(f"REGARD_TARGET={forced} is not a target of this machine; allowed: {allowed}")
        return chosen
    features = set(processor_features().split())
    return tuple(target for target in targets if target.features <= features)


@cache
def processor_features() -> str:
    """The features of this processor in /proc/cpuinfo; empty if it lists none."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    return next((line.partition(":")[2] for line in lines if line.startswith(("flags", "Features"))), "")


# ---- Trials. ----


def trial(path: Path, sha256: str, runtime: str, cache: Path | None) -> str:
    """Run a library once in a child process, which an illegal instruction may kill.

    Args:
        path: The library.
        sha256: The library's digest; with the processor's features it identifies the trial.
        runtime: The OpenMP runtime to load first.
        cache: Folder in which results are cached; None: results are not cached.

    Returns:
        Why the library does not run here, or an empty string.
    """
    identity = hashlib.blake2b(f"{sha256}\0{processor_features()}".encode(), digest_size=12).hexdigest()
    result_path = None if cache is None else cache / f"{identity}.trial"
    result = cached_result(result_path)
    if not result:
        result = run_trial(path, runtime)
        if result_path is not None and result in (RUNS, ILLEGAL):
            cache_result(result_path, result)
    return "" if result == RUNS else result


def run_trial(path: Path, runtime: str) -> str:
    """`RUNS`, or why the library does not run."""
    command = [sys.executable, "-I", "-S", "-c", TRIAL, str(path), runtime]
    try:
        process = subprocess.run(command, capture_output=True, timeout=TRIAL_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"its trial run failed: {problem}"
    if process.returncode == -signal.SIGILL:
        return ILLEGAL
    if process.returncode:
        last_line = (process.stderr.decode(errors="replace").strip().splitlines() or [""])[-1]
        return f"its trial run ended with {process.returncode}{in_parentheses([last_line])}"
    return RUNS


def cached_result(path: Path | None) -> str:
    """The cached result of a trial, or an empty string."""
    try:
        if path is None or not is_trusted(path.lstat()):
            return ""
        result = path.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
    return result if result in (RUNS, ILLEGAL) else ""


def cache_result(path: Path, result: str) -> None:
    """Write atomically; an error is ignored, and the next process repeats the trial."""
    part = path.with_name(f"{path.stem}.{secrets.token_hex(4)}.part")
    with suppress(OSError):
        try:
            part.write_text(result + "\n", "ascii")
            part.chmod(0o644)  # whatever the umask
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


# ---- Checks before loading. ----


def shipped_libraries() -> tuple[dict[str, str], str]:
    """SHA-256 of each shipped library by the name of its target, and why none can be used, or an empty string.

    All libraries are checked, so that a damaged installation is reported.
    """
    folder = build.SHIPPED
    if not (folder / build.MANIFEST).exists():
        return {}, ""
    try:
        tighten_shipped(folder)
        manifest_path = folder / build.MANIFEST
        for path, is_kind in ((folder, stat.S_ISDIR), (manifest_path, stat.S_ISREG)):
            if problem := shipped_refusal(path, is_kind(path.lstat().st_mode)):
                return {}, problem
        manifest = build.read_manifest(folder)
        if manifest["sources"] != build.source_digest():
            return {}, "the shipped library was built from other C sources"
        libraries: dict[str, str] = {}
        for target in build.targets():
            for entry in manifest["libraries"]:
                if entry["target"] != target.name:
                    continue
                path = folder / target.file  # whatever file the manifest names
                if problem := shipped_refusal(path, stat.S_ISREG(path.lstat().st_mode)):
                    return {}, problem
                if digest(path) != entry["sha256"]:
                    return {}, f"{path} is not the file that was shipped"
                libraries[target.name] = entry["sha256"]
    except OSError as problem:
        return {}, f"the shipped library cannot be read ({problem.strerror or problem})"
    except ValueError as problem:
        return {}, f"{folder / build.MANIFEST} is not a manifest ({problem})"
    return libraries, ""


def tighten_shipped(folder: Path) -> None:
    """Remove write permission of group and others from our own files: pip applies the umask only."""
    for path in (folder, *folder.iterdir()):
        status = path.lstat()
        is_plain = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
        if is_plain and may_others_write(status) and status.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(status.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


def shipped_refusal(path: Path, is_kind: bool) -> str:
    """Why a shipped file cannot be trusted, or an empty string.

    It may also belong to the owner of this module, whose code is running already.
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
    """Create the folder if it is missing; returns why it cannot be trusted, or an empty string.

    With `tighten`, write permission of group and others is removed from a folder of the current user: regard's
    own cache may have been created with a umask that allows it.
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


def is_trusted(status: os.stat_result) -> bool:
    """Whether it is a plain file of the current user or root that no other user may write to."""
    return stat.S_ISREG(status.st_mode) and is_ours(status) and not may_others_write(status)


def digest_path(path: Path) -> Path:
    """The file with the SHA-256 of a cached library."""
    return path.with_name(f"{path.name}.sha256")


def is_intact(path: Path) -> bool:
    """Whether a cached library can be trusted and has its recorded SHA-256; otherwise it is compiled again."""
    try:
        if not all(is_trusted(file.lstat()) for file in (path, digest_path(path))):
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
    """Hold the folder's lock, if the system and the file system support one."""
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


def compile_into_cache(compiler: str, target: Target, path: Path) -> str:
    """Compile a library into the cache, with its digest.

    Files are written under temporary names and renamed, the digest last.

    Returns:
        Why it failed, or an empty string.
    """
    part = path.with_name(f"{path.stem}.{os.getpid()}.{secrets.token_hex(4)}.part")
    digest_part = digest_path(part)
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        problem = build.compile_libraries(compiler, {target: part}, build.extra_flags())[target]
        if problem:
            return problem
        digest_part.write_text(digest(part) + "\n", "ascii")
        for temporary, final in ((part, path), (digest_part, digest_path(path))):
            temporary.chmod(0o755 if temporary is part else 0o644)  # whatever the umask
            temporary.replace(final)
    except OSError as error:
        return str(error)
    finally:
        for temporary in (part, digest_part):
            temporary.unlink(missing_ok=True)
    return ""
