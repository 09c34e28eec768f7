"""The kernels, compiled on this machine for this machine, once; where that does not work, there are none.

Every kernel has a plain twin in PyTorch: without a compiler everything works, only slower.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.disk import cache_folder
from regard.engine.structs import Asked, Lesson, Looked, Remembered, Thought

SOURCE = Path(__file__).parent / "csrc" / "kernels.c"
FLAGS = (
    *("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
    *("-fPIC", "-shared", "-fopenmp"),
)
TARGETS = ("-march=native", "")
"""For this very processor; where it claims instructions that it does not let us run, for any."""
PATIENCE = 60
"""Seconds for the compiler; it takes about two."""


_P, _I, _N, _F, _S = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_float, ctypes.c_uint64
TAKES: dict[str, tuple[type, ...]] = {
    "add_dropped": (_P, _P, _P, _N, _I, _S),
    "relu_dropped": (_P, _P, _N, _N, _I, _S),
    "relu_dropped_backward": (_P, _P, _P, _P, _N, _N, _I),
    "smoothed_rows": (_P, _P, _P, _N, _N, _N, _F, _F, _P, _P),
    "twin_rows": (_P, _P, _P, _P, _N, _N, _N, _F, _F, _F, _P, _P),
    "attend_apart": (ctypes.POINTER(Asked), _P, _P),
    "attend_apart_backward": (ctypes.POINTER(Asked), _P, _P, _P, _P, _P, _P, _N, _N),
    "think_there": (ctypes.POINTER(Thought), _P, _P, _P),
    "think_back": (ctypes.POINTER(Thought), _P, _P, _P, _P, _P, _P),
    "look_there": (ctypes.POINTER(Looked), *[_P] * 6),
    "look_back": (ctypes.POINTER(Looked), *[_P] * 12),
    "learn": (ctypes.POINTER(Lesson), _P, _P),
    "match_apart": (_P, _P, _I, _I, _P, _I, _I, _P),
    "join_rows": (_P, _P, _P, _P, _I, _N, _P),
    "lay_out": (_P, _P, _N, _N, _I),
    "multiply": (_P, _N, _P, _P, _N, _N, _N, _I, _P),
    "outer": (_P, _N, _P, _N, _N, _I, _P),
    "orthogonal": (_P, _N, _N, _N, _I, _F, _F, _F),
    "gelu": (_P, _P, _P, _N, _N),
    "gelu_backward": (_P, _P, _P, _P, _N, _N),
    "read_first": (_P, _P, _I, _I, _I, _I, _P),
    "next_token": (_P, _P, _P, _I, _I, _I, _I, _P, _P),
    "nearest": (ctypes.POINTER(Remembered), _P, _N, _N, _I, _P, _P),
    "translate": (_P, _P, _P, _I, _P, _P, _P, _I, _P, _P, _P, _P),
    "use_threads": (_I,),
    "best_of_rows": (_P, _N, _N, _I, _P, _P, _P),
    "fail_allocation_after": (_N,),
}
WITHOUT_STATUS = {
    *("add_dropped", "relu_dropped", "think_there", "join_rows", "lay_out", "multiply", "gelu"),
    *("use_threads", "best_of_rows", "fail_allocation_after"),
}
"""Functions that allocate nothing and return nothing; every other one returns a code of memory.c."""
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
    """The compiled kernels, or None where there are none."""
    built, _ = find_library()
    if built is None:
        return None
    found = ctypes.CDLL(str(built))
    for name, takes in TAKES.items():
        function = getattr(found, name)
        function.argtypes = takes
        if name in WITHOUT_STATUS:
            function.restype = None
        else:
            function.restype, function.errcheck = ctypes.c_int, raise_failure
    return found


def address(tensor: Tensor) -> int:
    """Where a tensor's numbers lie; the caller keeps the tensor as long as the kernel runs."""
    return tensor.data_ptr()


@cache
def find_library() -> tuple[Path | None, str]:
    """Where the compiled kernels are, and a sentence about it.

    REGARD_NATIVE names another folder for them than the cache; 0 does without.
    """
    own = os.environ.get("REGARD_NATIVE", "")
    if own == "0":
        return None, "switched off by REGARD_NATIVE=0"
    folder = Path(own) if own else cache_folder() / "native"
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None, "no C compiler found: PyTorch's own operations are used, which is slower"
    why = ""
    for target in TARGETS:
        built = folder / f"{key(compiler, target)}.so"
        if built.is_file():
            return built, f"compiled by {Path(compiler).name} {target}".rstrip()
        why = compiled(compiler, target, built)
        if not why:
            return built, f"compiled by {Path(compiler).name} {target}".rstrip()
    return None, f"the kernels could not be compiled ({why}): PyTorch's own operations are used"


def key(compiler: str, target: str) -> str:
    """Changes with the source, the compiler and the processor."""
    parts = [path.read_text("utf-8") for path in sorted(SOURCE.parent.glob("*.c"))]
    told = [*parts, compiler, target, *FLAGS, platform.machine(), processor()]
    return hashlib.blake2b("\0".join(told).encode(), digest_size=12).hexdigest()


def processor() -> str:
    """What the processor says it can do: a cache may be shared by machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def compiled(compiler: str, target: str, built: Path) -> str:
    """Compile and try it in a child process, which an illegal instruction may end; why not, or nothing."""
    part = built.with_name(f"{built.stem}.{os.getpid()}.part")
    command = [compiler, *FLAGS, *filter(None, [target]), str(SOURCE), "-lm", "-o", str(part)]
    trial = f"import ctypes, sys; sys.exit(0 if ctypes.CDLL({str(part)!r}).works() else 1)"
    try:
        built.parent.mkdir(parents=True, exist_ok=True)
        made = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if made.returncode:
            return (made.stderr.strip().splitlines() or ["the compiler failed"])[-1]
        ran = subprocess.run([sys.executable, "-c", trial], capture_output=True, timeout=PATIENCE, check=False)
        if ran.returncode:
            return f"what was built ended with {ran.returncode}"
        part.replace(built)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    finally:
        part.unlink(missing_ok=True)
    return ""
