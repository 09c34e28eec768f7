"""MKL's strict mode of conditional numerical reproducibility: matrix products independent of the batch size.

For few rows, MKL uses other kernels than for many, with another order of summation: the results for a sentence
alone and in a batch would differ by rounding. Strict mode fixes the order, at a measurable cost for single rows
only. On processors of other makers that mode is slow and not needed: only fewer than four rows are treated
differently there, and the search pads them to four.
"""

import os
import platform
from pathlib import Path

VARIABLE = "MKL_CBWR"
"""The environment variable, which MKL reads at its first matrix product."""


def enable_reproducible_mkl() -> None:
    """Set MKL's strict mode for this process on an Intel processor, unless `MKL_CBWR` is set already.

    Call it before PyTorch's first matrix product, best before importing PyTorch. The command line does so;
    `import regard` does not change the environment.
    """
    if VARIABLE not in os.environ and is_intel():
        os.environ[VARIABLE] = "AUTO,STRICT"


def is_intel(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this is an Intel processor."""
    try:
        with cpuinfo.open("rb") as file:
            return b"GenuineIntel" in file.read(512)  # the entry of the first core
    except OSError:
        return "GenuineIntel" in platform.processor()
