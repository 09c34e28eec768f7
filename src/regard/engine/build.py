"""Compiles the engine's C sources: one shared library per target, and the manifest of the shipped libraries.

A wheel contains the libraries in `lib/`; in a checkout with edited C sources, the best one is compiled into the
cache (locate.py). Imports the standard library only: hatch_build.py loads this file by its path, without the
dependencies of regard.
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
"""Each compiled to an object file, then linked."""
FLAGS = (
    *("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
    *("-fPIC", "-fopenmp", "-fvisibility=hidden", "-Wno-psabi"),
)
LINK = ("-shared", "-lm")
"""Without -fopenmp: the OpenMP runtime is the one that PyTorch has loaded (openmp.py)."""
SHIPPED = Path(__file__).parent / "lib"
MANIFEST = "manifest.json"
TIMEOUT = 300
"""Seconds for one compiler run, which takes about five."""


@dataclass(frozen=True)
class Target:
    """An instruction set to compile for."""

    name: str
    flags: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    """Required processor features, as in /proc/cpuinfo."""

    @property
    def file(self) -> str:
        return f"engine-{self.name}.so"


# Single flags: compilers before GCC 11 do not support -march=x86-64-v3.
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
"""By machine, best first; the last one runs on every processor of its kind."""


def targets() -> tuple[Target, ...]:
    """Targets of this machine, best first."""
    machine = platform.machine()
    return TARGETS.get(machine) or (Target(machine or "generic"),)


# ---- Digests. ----


def source_digest() -> str:
    """Digest of the C sources, the flags and the targets, stored in the manifest of shipped libraries."""
    parts = [*FLAGS, *LINK, *(path.name for path in SOURCES)]
    for path in sorted((*CSRC.glob("*.c"), *CSRC.glob("*.h"))):
        parts += [path.name, path.read_text("utf-8")]
    for target in targets():
        parts += [target.name, *target.flags]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def cache_key(compiler: str, target: Target) -> str:
    """Digest of the sources, the target, the flags, the compiler and the C library."""
    versions = [compiler, compiler_version(compiler), *platform.libc_ver()]
    parts = [source_digest(), *versions, target.name, *target.flags, *extra_flags(), platform.machine()]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def extra_flags() -> list[str]:
    """Flags in $REGARD_CFLAGS, such as -fsanitize=address."""
    return shlex.split(os.environ.get("REGARD_CFLAGS", ""))


def find_compiler() -> str | None:
    """Path of $CC, cc, gcc or clang, the first that exists."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")


@cache
def compiler_version(compiler: str) -> str:
    """The first line of `cc --version`; empty if that fails."""
    try:
        process = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return (process.stdout.splitlines() or [""])[0]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---- Compiling. ----


def compile_libraries(compiler: str, outputs: Mapping[Target, Path], extra: list[str]) -> dict[Target, str]:
    """Compile a library for each target, in parallel.

    Returns:
        For each target why it could not be compiled, or an empty string.
    """
    # Clang's OpenMP uses another runtime than GCC's, which has to be linked.
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
        futures = {
            target: [pool.submit(_run, [*command, "-o", str(out)]) for out, command in commands]
            for target, commands in compilations.items()
        }
        problems = {}
        for target, output in outputs.items():
            problem = next((problem for future in futures[target] if (problem := future.result())), "")
            objects = [str(out) for out, _ in compilations[target]]
            problems[target] = problem or _run(
                [compiler, *objects, *LINK, *openmp, *extra, *target.flags, "-o", str(output)]
            )
    return problems


def _run(command: list[str]) -> str:
    """Run a command; returns why it failed, or an empty string."""
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    if not process.returncode:
        return ""
    lines = process.stderr.strip().splitlines() or ["the compiler failed"]
    return next((line for line in lines if "error" in line), lines[-1])


# ---- Shipped libraries. ----


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of libraries.

    Raises:
        OSError: The manifest cannot be read.
        ValueError: The file is not a manifest.
    """
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    if not isinstance(manifest, dict) or not isinstance(manifest.get("sources"), str):
        raise ValueError("it has no digest of the sources")
    libraries = manifest.get("libraries")
    if not isinstance(libraries, list):
        raise ValueError("it has no list of libraries")
    for entry in libraries:
        if not isinstance(entry, dict) or not all(
            isinstance(entry.get(name), str) for name in ("target", "file", "sha256")
        ):
            raise ValueError("a library has no target, file or sha256")
    return manifest


def build_shipped(folder: Path = SHIPPED, log: Callable[[str], object] = print) -> list[Path]:
    """Compile the libraries of all targets of this machine into a folder, with their manifest.

    Libraries that were built from the same sources by the same compiler are kept.

    Returns:
        The files, including the manifest; none if there is no compiler or no target compiles.
    """
    if sys.platform != "linux":
        log(f"regard: no native engine on {sys.platform}, only on Linux; everything works, slower")
        return []
    compiler = find_compiler()
    if files := _up_to_date_files(folder, compiler):
        log(f"regard: the native libraries in {folder} are up to date")
        return files
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
    log(f"regard: native libraries for {', '.join(entry['target'] for entry in libraries)}")
    return [folder / MANIFEST, *(folder / entry["file"] for entry in libraries)]


def _up_to_date_files(folder: Path, compiler: str | None) -> list[Path]:
    """The files of a folder if it has the libraries of all targets, built from these sources and compiler.

    Without a compiler, libraries that any compiler built from these sources are accepted.
    """
    try:
        manifest = read_manifest(folder)
        libraries = manifest["libraries"]
        if manifest["sources"] != source_digest() or not libraries:
            return []
        if compiler is not None and (
            manifest.get("compiler") != compiler_version(compiler)
            or {entry["target"] for entry in libraries} != {target.name for target in targets()}
        ):
            return []
        for entry in libraries:
            if Path(entry["file"]).name != entry["file"] or sha256(folder / entry["file"]) != entry["sha256"]:
                return []
    except (OSError, ValueError):
        return []
    return [folder / MANIFEST, *(folder / entry["file"] for entry in libraries)]


def wheel_tag(libraries: list[Path]) -> str:
    """The platform tag of a wheel: manylinux with the oldest glibc that has all symbols of the libraries.

    They depend on libc and libm only; symbol versions are in the file as text.
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
