"""The device to compute on, through `torch.accelerator`: CUDA, ROCm, XPU, MPS and others alike."""

from typing import Any

import torch

from regard.errors import RegardError


def choose_device(wanted: str = "auto") -> torch.device:
    """The device of this process.

    Args:
        wanted: "auto" for the accelerator if there is one, else the CPU; or a device as PyTorch names it:
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
    found = accelerator()
    if found is None or device.type != found.type:
        raise _refused(wanted)
    if device.index is None:
        return found
    if device.index >= torch.accelerator.device_count():
        raise _refused(wanted)
    torch.accelerator.set_device_index(device.index)
    return device


def accelerator() -> torch.device | None:
    """The accelerator in use by this process, with its index; None if there is none."""
    if not torch.accelerator.is_available():
        return None
    found = torch.accelerator.current_accelerator()
    return None if found is None else torch.device(found.type, torch.accelerator.current_device_index())


def available() -> list[str]:
    """The devices of this machine, as `choose_device` takes them."""
    found = accelerator()
    if found is None:
        return ["cpu"]
    return ["cpu", *(f"{found.type}:{index}" for index in range(torch.accelerator.device_count()))]


def device_module(device: torch.device) -> Any:
    """PyTorch's module for a type of accelerator, such as `torch.cuda`."""
    return torch.get_device_module(device)


def accelerator_name() -> str | None:
    """The accelerator's name, such as that of a GPU; None if there is none."""
    found = accelerator()
    if found is None:
        return None
    name = getattr(device_module(found), "get_device_name", None)
    return found.type if name is None else str(name())


def accelerator_memory() -> int | None:
    """The most bytes that tensors took on the accelerator; None if there is none, or it does not count."""
    found = accelerator()
    count = None if found is None else getattr(device_module(found), "max_memory_allocated", None)
    return None if count is None else int(count())


def _refused(wanted: str) -> RegardError:
    here = ", ".join(available())
    return RegardError(f'train.device: there is no device "{wanted}" here; choose auto, or one of {here}')
