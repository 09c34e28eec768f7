"""Compiles the engine's C: one shared library for each target, and the manifest of those that are shipped.

A wheel carries the libraries in `lib/`; a checkout whose C was edited compiles the best one into the cache
(locate.py). Standard library only and nothing from regard: hatch_build.py loads this file by its path, where
regard's dependencies are not installed.
"""

import hashlib
import json
import os
import platform
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CSRC = Path(__file__).parent / "csrc"
SOURCES = tuple(sorted(CSRC.glob("*.c")))
"""Compiled one by one, then linked."""
FLAGS = (
    *("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
    *("-fPIC", "-fopenmp", "-fvisibility=hidden", "-Wno-psabi"),
)
LINK = ("-shared", "-lm")
"""Not -fopenmp: the OpenMP runtime is the one PyTorch has loaded (openmp.py), whatever the name of its file."""
SHIPPED = Path(__file__).parent / "lib"
MANIFEST = "manifest.json"
TIMEOUT = 300
"""Seconds for one run of the compiler; it takes about five."""


@dataclass(frozen=True)
class Target:
    """A set of instructions to compile for."""

    name: str
    flags: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    """What a processor must announce, in the words of /proc/cpuinfo."""

    @property
    def file(self) -> str:
        return f"engine-{self.name}.so"


# Flags one by one: compilers before GCC 11 do not know -march=x86-64-v3.
_V3 = Target(
    "x86-64-v3",
    ("-mavx2", "-mfma", "-mbmi", "-mbmi2", "-mf16c"),
    frozenset(("avx2", "fma", "bmi1", "bmi2", "f16c")),
)
_V4 = Target(
    "x86-64-v4",
    (*_V3.flags, "-mavx512f", "-mavx512bw", "-mavx512cd", "-mavx512dq", "-mavx512vl"),
    _V3.features | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
)
TARGETS = {
    "x86_64": (_V4, _V3, Target("x86-64")),
    "aarch64": (Target("armv8-a", ("-march=armv8-a",)),),
}
"""By machine, the best one first; the last one runs on every processor of its kind."""


def targets() -> tuple[Target, ...]:
    """Targets of this machine, the best one first."""
    machine = platform.machine()
    return TARGETS.get(machine) or (Target(machine or "generic"),)


# ---- What a library depends on. ----


def source_digest() -> str:
    """Changes with the C sources, the flags and the targets: what a shipped library was built from."""
    parts = [*FLAGS, *LINK, *(path.name for path in SOURCES)]
    for path in sorted((*CSRC.glob("*.c"), *CSRC.glob("*.h"))):
        parts += [path.name, path.read_text("utf-8")]
    for target in targets():
        parts += [target.name, *target.flags]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def key(compiler: str, target: Target) -> str:
    """Changes with the sources, the target, the flags, the compiler and the C library."""
    versions = [compiler, compiler_version(compiler), *platform.libc_ver()]
    parts = [source_digest(), *versions, target.name, *target.flags, *extra_flags(), platform.machine()]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def extra_flags() -> list[str]:
    """What $REGARD_CFLAGS adds, such as -fsanitize=address."""
    return shlex.split(os.environ.get("REGARD_CFLAGS", ""))


def find_compiler() -> str | None:
    """$CC, cc, gcc or clang, whichever is found first."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")


@cache
def compiler_version(compiler: str) -> str:
    """The first line of `cc --version`; empty where the compiler has none."""
    try:
        ran = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return (ran.stdout.splitlines() or [""])[0]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---- Compiling. ----


def compile_libraries(compiler: str, outputs: Mapping[Target, Path], extra: list[str]) -> dict[Target, str]:
    """Compile a library for each target, in parallel.

    Returns:
        Why a target could not be compiled; an empty string where it was.
    """
    # Clang's OpenMP calls another runtime than GCC's, so that one has to be linked.
    openmp = ["-fopenmp"] if "clang" in compiler_version(compiler) else []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        compilations = {
            target: [
                (
                    Path(folder) / f"{target.name}-{source.stem}.o",
                    [compiler, *FLAGS, *extra, *target.flags, "-c", str(source)],
                )
                for source in SOURCES
            ]
            for target in outputs
        }
        waiting = {
            target: [pool.submit(_run, [*command, "-o", str(out)]) for out, command in commands]
            for target, commands in compilations.items()
        }
        problems = {}
        for target, output in outputs.items():
            why = next((why for each in waiting[target] if (why := each.result())), "")
            objects = [str(out) for out, _ in compilations[target]]
            problems[target] = why or _run(
                [compiler, *objects, *LINK, *openmp, *extra, *target.flags, "-o", str(output)]
            )
    return problems


def _run(command: list[str]) -> str:
    """Why a command failed, or an empty string."""
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    if not ran.returncode:
        return ""
    lines = ran.stderr.strip().splitlines() or ["the compiler failed"]
    return next((line for line in lines if "error" in line), lines[-1])


# ---- The libraries of a wheel. ----


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of libraries.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a manifest.
    """
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    if not isinstance(manifest, dict) or not isinstance(manifest.get("sources"), str):
        raise ValueError("it names no sources")
    libraries = manifest.get("libraries")
    if not isinstance(libraries, list):
        raise ValueError("it names no libraries")
    for each in libraries:
        if not isinstance(each, dict) or not all(
            isinstance(each.get(name), str) for name in ("target", "file", "sha256")
        ):
            raise ValueError("a library has no target, file or sha256")
    return manifest


def build_shipped(folder: Path = SHIPPED, log: Callable[[str], object] = print) -> list[Path]:
    """Compile the libraries of every target of this machine into a folder, with their manifest.

    What is there already, built from the same sources by the same compiler, is kept.

    Returns:
        The files, the manifest among them; none where there is no compiler or no target compiles.
    """
    if sys.platform != "linux":
        log(f"regard: no native engine on {sys.platform}, only on Linux; everything works, slower")
        return []
    compiler = find_compiler()
    if present := _present(folder, compiler):
        log(f"regard: the native libraries in {folder} are up to date")
        return present
    if compiler is None:
        log("regard: no C compiler found ($CC, cc, gcc, clang): no native libraries; everything works, slower")
        return []
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    parts = {target: folder / f".{target.file}.{secrets.token_hex(4)}" for target in targets()}
    try:
        problems = compile_libraries(compiler, parts, [])
        libraries = []
        for target, part in parts.items():
            if problems[target]:
                log(f"regard: {Path(compiler).name} does not compile for {target.name}: {problems[target]}")
                continue
            part.chmod(0o755)
            part.replace(folder / target.file)
            libraries.append(
                {"target": target.name, "file": target.file, "sha256": sha256(folder / target.file)}
            )
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
    if not libraries:
        log("regard: no native libraries were compiled; everything works, slower")
        return []
    manifest = {"sources": source_digest(), "compiler": compiler_version(compiler), "libraries": libraries}
    part = folder / f".{MANIFEST}.{secrets.token_hex(4)}"
    part.write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    part.chmod(0o644)
    part.replace(folder / MANIFEST)
    log(f"regard: native libraries for {', '.join(each['target'] for each in libraries)}")
    return [folder / MANIFEST, *(folder / each["file"] for each in libraries)]


def _present(folder: Path, compiler: str | None) -> list[Path]:
    """The files of a folder if it holds every target's library, built from these sources by this compiler.

    Without a compiler, what was built from these sources is taken as it is.
    """
    try:
        manifest = read_manifest(folder)
        libraries = manifest["libraries"]
        if manifest["sources"] != source_digest() or not libraries:
            return []
        if compiler is not None and (
            manifest.get("compiler") != compiler_version(compiler)
            or {each["target"] for each in libraries} != {target.name for target in targets()}
        ):
            return []
        for each in libraries:
            if Path(each["file"]).name != each["file"] or sha256(folder / each["file"]) != each["sha256"]:
                return []
    except (OSError, ValueError):
        return []
    return [folder / MANIFEST, *(folder / each["file"] for each in libraries)]


def wheel_tag(libraries: list[Path]) -> str:
    """The tag of a wheel with these libraries: manylinux with the oldest glibc that has every symbol they need.

    They depend on libc and libm alone; symbol versions stand in the file as text.
    """
    machine = platform.machine()
    if platform.libc_ver()[0] != "glibc":
        return f"py3-none-linux_{machine}"
    versions = [
        (int(major), int(minor))
        for path in libraries
        for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", path.read_bytes())
    ]
    major, minor = max([(2, 17), *versions])
    return f"py3-none-manylinux_{major}_{minor}_{machine}"


if __name__ == "__main__":
    sys.exit(0 if build_shipped() else 1)
