"""The OpenMP runtime and its threads, which PyTorch and the engine share."""

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch


class _SymbolInfo(ctypes.Structure):
    """`Dl_info` of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def torch_runtime() -> str:
    """The file of the OpenMP runtime that PyTorch is linked with; empty if it has no GNU OpenMP interface.

    Wheels contain their own: libgomp.so.1, or a name with a hash. A process may load several.
    """
    try:
        parallel = ctypes.CDLL(torch._C.__file__).GOMP_parallel
        dladdr = ctypes.CDLL(None).dladdr
    except (OSError, AttributeError, TypeError):
        return ""
    info = _SymbolInfo()
    if not dladdr(ctypes.cast(parallel, ctypes.c_void_p), ctypes.byref(info)) or info.file is None:
        return ""
    path = info.file.decode(errors="surrogateescape")
    return path if Path(path).is_file() else ""


@cache
def load_runtime() -> tuple[str, str]:
    """Load PyTorch's OpenMP runtime, else the system's, so that libraries loaded later can use its symbols.

    The engine's library is not linked with a runtime, so that it uses PyTorch's threads and can be loaded
    without GCC's libraries. PyTorch's own loader makes its dependencies visible in the same way.

    Returns:
        The runtime's file or name, and why there is none, or an empty string.
    """
    path = torch_runtime() or "libgomp.so.1"
    try:
        ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    except OSError as problem:
        return "", f"PyTorch has no GNU OpenMP runtime and the system's cannot be loaded ({problem})"
    return path, ""


def in_every_thread(work: Callable[[], None]) -> None:
    """Call a function in each OpenMP thread that PyTorch's kernels use from this thread, then in this thread.

    The other threads run first: new ones are created here and inherit the floating-point flags of this thread.
    """
    this_thread = threading.get_ident()

    def in_other_threads(_: int | None) -> None:
        if threading.get_ident() != this_thread:
            work()

    body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(in_other_threads)
    try:
        parallel = ctypes.CDLL(torch._C.__file__).GOMP_parallel
        parallel.argtypes = [type(body), ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        parallel(body, None, torch.get_num_threads(), 0)
    except (OSError, AttributeError):  # another OpenMP, or none: this thread only
        pass
    work()
