"""The OpenMP runtime and its threads, which PyTorch's kernels and the engine's share."""

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
    """The file of the OpenMP runtime that PyTorch is linked with; empty where it has no GNU OpenMP interface.

    Wheels carry their own: libgomp.so.1, or a name with a digest in it. A process may hold several.
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
    """Make the symbols of PyTorch's OpenMP runtime, else the system's, visible to libraries loaded later.

    The engine's library is not linked with a runtime, so that both use the same threads and a machine without
    GCC's libraries can load it. PyTorch's own loader makes its dependencies visible in the same way.

    Returns:
        The runtime's file or name, and why there is none.
    """
    path = torch_runtime() or "libgomp.so.1"
    try:
        ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    except OSError as problem:
        return "", f"PyTorch has no GNU OpenMP runtime and the system's cannot be loaded ({problem})"
    return path, ""


def in_every_thread(work: Callable[[], None]) -> None:
    """Call a function in each OpenMP thread that PyTorch's kernels use from this thread, then in this one.

    The others come first: those that do not exist yet start here, with the flags that this thread has now.
    """
    own = threading.get_ident()

    def in_others(_: int | None) -> None:
        if threading.get_ident() != own:
            work()

    body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(in_others)
    try:
        parallel = ctypes.CDLL(torch._C.__file__).GOMP_parallel
        parallel.argtypes = [type(body), ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        parallel(body, None, torch.get_num_threads(), 0)
    except (OSError, AttributeError):  # another OpenMP, or none: this thread alone
        pass
    work()
