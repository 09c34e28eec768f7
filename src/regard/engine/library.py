"""The native library as ctypes sees it: its functions with their types, and what their return codes stand for.

Which library that is, locate.py decides; without one everything works through PyTorch, only slower.
"""

import ctypes
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.engine.locate import find_library
from regard.engine.structs import Asked, Lesson, Looked, Remembered, Thought

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
    "fingerprint": (_P, _P, _N, _P),
    "use_threads": (_I,),
    "best_of_rows": (_P, _N, _N, _I, _P, _P, _P),
    "fail_allocation_after": (_N,),
}
WITHOUT_STATUS = {
    *("add_dropped", "relu_dropped", "think_there", "join_rows", "lay_out", "multiply", "gelu"),
    *("use_threads", "best_of_rows", "fail_allocation_after", "fingerprint"),
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
    """The native library with the types of its functions declared; None where there is none."""
    path, _ = find_library()
    if path is None:
        return None
    library = ctypes.CDLL(str(path))
    for name, takes in TAKES.items():
        function = getattr(library, name)
        function.argtypes = takes
        if name in WITHOUT_STATUS:
            function.restype = None
        else:
            function.restype, function.errcheck = ctypes.c_int, raise_failure
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


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse second derivatives: `once_differentiable` alone leaves them out silently beside another path."""
    once = once_differentiable(backward)

    @wraps(backward)
    def checked(ctx: Any, *upstream: Tensor) -> Any:
        if torch.is_grad_enabled():  # as with create_graph=True
            raise RuntimeError(
                "the native engine has no second derivatives (create_graph=True); "
                "set REGARD_NATIVE=0 to compute them with PyTorch"
            )
        return once(ctx, *upstream)

    return checked


def optional_ptr(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
