"""The OpenMP threads that PyTorch's kernels and the engine's share."""

import ctypes
import threading
from collections.abc import Callable

import torch


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
