"""Tensors in files: written by safetensors, and looked at before any memory is taken."""

import errno
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

NUMBERS = ("F64", "F32", "F16", "BF16")
"""What a weight may be stored as."""


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file; a failure of the library is raised as an OSError.

    The metadata names PyTorch: transformers 4.46 does not open a file without it.
    """
    try:
        save_file({name: each.contiguous() for name, each in tensors.items()}, path, metadata={"format": "pt"})
    except SafetensorError as problem:
        raise OSError(*cause_of(problem)) from None


def cause_of(problem: SafetensorError) -> tuple[int, str]:
    """The system's error: the library tells it in its text, `... (os error 28)`."""
    told = re.search(r"os error (\d+)", str(problem))
    number = int(told[1]) if told else errno.EIO
    return number, os.strerror(number) if told else str(problem)


def shapes_in(path: Path, besides: Callable[[str], bool] = lambda name: False) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor, from the header alone; ValueError where it is not a file of weights.

    Tensors for which `besides` is true are passed over.
    """
    try:
        with safe_open(path, "pt") as file:
            names = [name for name in file.keys() if not besides(name)]  # noqa: SIM118  # not a mapping
            slices = {name: file.get_slice(name) for name in names}
            for name, each in slices.items():
                if each.get_dtype() not in NUMBERS:
                    raise ValueError(f"{name!r} is stored as {each.get_dtype()}")
            return {name: tuple(each.get_shape()) for name, each in slices.items()}
    except (SafetensorError, OSError) as problem:
        raise ValueError(str(problem)) from None


def check_shapes(found: Mapping[str, tuple[int, ...]], wanted: Mapping[str, tuple[int, ...]]) -> None:
    """ValueError with the first name or shape that is not as it should be."""
    for name, shape in wanted.items():
        if name not in found:
            raise ValueError(f"{name!r} is missing")
        if found[name] != shape:
            raise ValueError(f"{name!r} is {shown(found[name])}, not {shown(shape)}")
    for name in found:
        if name not in wanted:
            raise ValueError(f"{name[:60]!r} is no part of this model")


def shown(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"
