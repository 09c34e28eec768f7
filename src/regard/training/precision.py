"""Which numbers to compute with: bfloat16 only where it was seen to work.

Some machines announce instructions for bfloat16 that end the process when they are used. So a processor is
asked in a child process, which may die.
"""

import subprocess
import sys
from collections.abc import Callable
from typing import Literal

import torch

from regard.training.devices import device_module

PROBE = """
import torch
a, b = torch.randn(512, 512), torch.randn(512, 512)
found = (a.bfloat16() @ b.bfloat16()).float()
assert (found - a @ b).abs().max() < 2.0, "wrong"
"""
SECONDS = 60


def choose(
    wanted: Literal["auto", "float32", "bfloat16"], device: torch.device, tell: Callable[[str], object]
) -> torch.dtype:
    """The type for matrix products; where bfloat16 is wanted and does not run, that is told."""
    if wanted == "float32":
        return torch.float32
    problem: str | None
    if device.type != "cpu":
        supported = getattr(device_module(device), "is_bf16_supported", None)
        if supported is not None and supported():
            return torch.bfloat16
        problem = f"{device} has no bfloat16"
    elif wanted == "auto":
        return torch.float32  # on a processor bfloat16 is the slower one, where it runs at all
    else:
        problem = trouble_with_bfloat16()
    if problem is None:
        return torch.bfloat16
    if wanted == "bfloat16":
        tell(f"{problem}; float32 is used")
    return torch.float32


def trouble_with_bfloat16(probe: str = PROBE) -> str | None:
    """What happens to a child process that multiplies bfloat16 matrices; None where all is well."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", probe], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "bfloat16 could not be tried out"
    if done.returncode < 0:
        return f"bfloat16 ends the process here with signal {-done.returncode}"
    return None if done.returncode == 0 else "bfloat16 gives wrong results here"
