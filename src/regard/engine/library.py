"""The native library as ctypes sees it: its functions with their types, and what their return codes stand for.

Which library that is, locate.py decides; without one everything works through PyTorch, only slower.
"""

import ctypes
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch
from torch import Tensor

from regard.engine.header import header
from regard.engine.locate import find_library

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
