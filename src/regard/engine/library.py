"""The native library through ctypes: its functions with their types, and exceptions for their return codes.

locate.py chooses the library; without one everything is computed by PyTorch, more slowly.
"""

import ctypes
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch
from torch import Tensor

from regard.engine.header import header
from regard.engine.locate import find_library

WITHOUT_STATUS = {"self_test"}
"""Functions whose int result is not a status of memory.c."""
FAILURES: dict[int, tuple[type[Exception], str]] = {
    1: (MemoryError, "native engine: out of memory in {}"),
    2: (ValueError, "native engine: sizes overflow or are out of range in {}"),
    3: (RuntimeError, "native engine: internal error in {}: its working memory is too small"),
}


def raise_failure(code: int, function: Any, arguments: tuple[Any, ...]) -> int:
    """Raise the exception of a return code; ctypes calls this after every function that returns one.

    Raises:
        MemoryError: An allocation failed.
        ValueError: Sizes exceed the address space, or are negative.
        RuntimeError: The engine computed the size of its working memory wrongly.
    """
    if code:
        kind, message = FAILURES.get(code, (RuntimeError, "native engine: unknown return code from {}"))
        raise kind(message.format(function.__name__))
    return code


@cache
def kernels() -> ctypes.CDLL | None:
    """The native library with the types of its functions declared; None if there is none."""
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
    """The native library, for callers that have a plan.

    Raises:
        RuntimeError: There is no library.
    """
    loaded = kernels()
    if loaded is None:
        raise RuntimeError(f"the native engine is not available: {find_library()[1]}")
    return loaded


def data_ptr(tensor: Tensor) -> int:
    """Address of a tensor's elements; the caller must keep the tensor alive while a kernel runs."""
    return tensor.data_ptr()


def refuse_second_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of an operator's backward function: raise RuntimeError for second derivatives."""

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
    """`data_ptr`, or None (a NULL pointer) for None."""
    return None if tensor is None else tensor.data_ptr()
