"""What a number was measured on."""

import platform
from pathlib import Path

import torch

from regard.training.devices import accelerator_name


def environment(version: str) -> dict[str, str]:
    """Versions, machine and threads, in words; `version` is regard's own."""
    return {
        "regard": version,
        "Python": platform.python_version(),
        "PyTorch": torch.__version__,
        "system": platform.platform(terse=True),
        "machine": machine(),
        "threads": str(torch.get_num_threads()),
        "GPU": accelerator_name() or "none",
    }


def machine() -> str:
    """The processor's name, or what kind it is."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    named = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()
