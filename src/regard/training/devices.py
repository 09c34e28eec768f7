"""Device and precision: an accelerator (CUDA, ROCm, XPU, MPS) where there is one, bfloat16 where it works."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any, Literal

import torch

from regard.errors import RegardError

BFLOAT16_PROBE = """
import torch
a, b = torch.randn(512, 512), torch.randn(512, 512)
product = (a.bfloat16() @ b.bfloat16()).float()
assert (product - a @ b).abs().max() < 2.0, "wrong"
"""
PROBE_SECONDS = 60


def choose_device(wanted: str = "auto") -> torch.device:
    """The device of this process.

    Args:
        wanted: "auto" for the accelerator if there is one, else the CPU; or a PyTorch device string such as
            "cpu", "cuda", "cuda:1", "mps".

    Raises:
        RegardError: There is no such device on this machine.
    """
    if wanted == "auto":
        return accelerator() or torch.device("cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise _refused(wanted) from None
    if device.type == "cpu" and not device.index:
        return torch.device("cpu")
    current = accelerator()
    if current is None or device.type != current.type:
        raise _refused(wanted)
    if device.index is None:
        return current
    if device.index >= torch.accelerator.device_count():
        raise _refused(wanted)
    torch.accelerator.set_device_index(device.index)
    return device


def accelerator() -> torch.device | None:
    """The accelerator in use by this process, with its index; None if there is none."""
    if not torch.accelerator.is_available():
        return None
    current = torch.accelerator.current_accelerator()
    return None if current is None else torch.device(current.type, torch.accelerator.current_device_index())


def available() -> list[str]:
    """The devices of this machine, as `choose_device` takes them."""
    current = accelerator()
    if current is None:
        return ["cpu"]
    return ["cpu", *(f"{current.type}:{index}" for index in range(torch.accelerator.device_count()))]


def device_module(device: torch.device) -> Any:
    """PyTorch's module for a type of accelerator, such as `torch.cuda`."""
    return torch.get_device_module(device)


def accelerator_name() -> str | None:
    """The accelerator's name, such as that of a GPU; None if there is none."""
    current = accelerator()
    if current is None:
        return None
    name = getattr(device_module(current), "get_device_name", None)
    return current.type if name is None else str(name())


def accelerator_memory() -> int | None:
    """Peak memory of tensors on the accelerator in bytes; None if there is none or it has no such counter."""
    current = accelerator()
    peak = None if current is None else getattr(device_module(current), "max_memory_allocated", None)
    return None if peak is None else int(peak())


def _refused(wanted: str) -> RegardError:
    choices = ", ".join(available())
    return RegardError(f'train.device: there is no device "{wanted}" here; choose auto, or one of {choices}')


def choose_precision(
    wanted: Literal["auto", "float32", "bfloat16"], device: torch.device, log: Callable[[str], object]
) -> torch.dtype:
    """The number type of matrix products.

    Args:
        wanted: "auto" for bfloat16 on accelerators that support it.
        device: Where the model is.
        log: Called with a message where bfloat16 is wanted and does not work.
    """
    if wanted == "float32":
        return torch.float32
    problem: str | None
    if device.type != "cpu":
        supported = getattr(device_module(device), "is_bf16_supported", None)
        if supported is not None and supported():
            return torch.bfloat16
        problem = f"{device} has no bfloat16"
    elif wanted == "auto":
        return torch.float32  # on a CPU bfloat16 is slower, where it works at all
    else:
        problem = bfloat16_problem()
    if problem is None:
        return torch.bfloat16
    if wanted == "bfloat16":
        log(f"{problem}; float32 is used")
    return torch.float32


def bfloat16_problem(probe: str = BFLOAT16_PROBE) -> str | None:
    """Multiply bfloat16 matrices on the CPU in a child process; what went wrong there, or None.

    Some machines announce bfloat16 instructions that kill the process that uses them.
    """
    try:
        result = subprocess.run(
            [sys.executable, "-c", probe], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "bfloat16 could not be tested"
    if result.returncode < 0:
        return f"bfloat16 ends the process here with signal {-result.returncode}"
    return None if result.returncode == 0 else "bfloat16 gives wrong results here"
