"""Safetensors files: writing, and checks of names and shapes before memory is allocated."""

import errno
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

DTYPES = ("F64", "F32", "F16", "BF16")
"""Data types that weights may have."""


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file.

    The metadata has the format "pt", without which transformers 4.46 does not load a file.

    Raises:
        OSError: The file cannot be written.
    """
    try:
        contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
        save_file(contiguous, path, metadata={"format": "pt"})
    except SafetensorError as problem:
        raise OSError(*cause_of(problem)) from None


def cause_of(problem: SafetensorError) -> tuple[int, str]:
    """Number and text of the system error, which the library's message contains: `... (os error 28)`."""
    match = re.search(r"os error (\d+)", str(problem))
    number = int(match[1]) if match else errno.EIO
    return number, os.strerror(number) if match else str(problem)


def shapes_in(path: Path, ignore: Callable[[str], bool] = lambda name: False) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor by name, from the header of the file.

    Args:
        path: A safetensors file.
        ignore: Returns whether to skip the tensor of this name.

    Raises:
        ValueError: It is not such a file, or a tensor has a data type that weights cannot have.
    """
    try:
        with safe_open(path, "pt") as file:
            names = [name for name in file.keys() if not ignore(name)]  # noqa: SIM118  # not a mapping
            slices = {name: file.get_slice(name) for name in names}
            for name, tensor in slices.items():
                if tensor.get_dtype() not in DTYPES:
                    raise ValueError(f"{name!r} is stored as {tensor.get_dtype()}")
            return {name: tuple(tensor.get_shape()) for name, tensor in slices.items()}
    except (SafetensorError, OSError) as problem:
        raise ValueError(str(problem)) from None


def check_shapes(shapes: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Compare names and shapes of tensors with the expected ones.

    Raises:
        ValueError: A tensor is missing, has another shape, or is not expected.
    """
    for name, shape in expected.items():
        if name not in shapes:
            raise ValueError(f"{name!r} is missing")
        if shapes[name] != shape:
            raise ValueError(f"{name!r} is {format_shape(shapes[name])}, not {format_shape(shape)}")
    for name in shapes:
        if name not in expected:
            raise ValueError(f"{name[:60]!r} is no part of this model")


def format_shape(shape: tuple[int, ...]) -> str:
    """A shape as `2 x 3`."""
    return " x ".join(map(str, shape)) or "one number"
