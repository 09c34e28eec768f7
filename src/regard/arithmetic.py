"""Matrix products whose rows do not depend on the rows beside them.

For few rows MKL uses other kernels than for many, which add up in another order: a sentence alone would then
have other last bits than the same sentence in a batch. MKL's strict mode (conditional numerical
reproducibility) keeps to one order; it costs nothing measurable but for single rows. On processors not made by
Intel that mode is slow and not needed: there only fewer than four rows are treated otherwise, and the search
fills them up to four.
"""

import os
import platform
from pathlib import Path

SETTING = "MKL_CBWR"
"""MKL reads it at its first product."""


def enable_reproducible_mkl() -> None:
    """Set MKL's strict mode for this process on an Intel processor, unless `MKL_CBWR` is set already.

    Call it before PyTorch's first matrix product, best before PyTorch is imported. The command line does so;
    `import regard` leaves the environment alone.
    """
    if SETTING not in os.environ and is_intel():
        os.environ[SETTING] = "AUTO,STRICT"


def is_intel(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether Intel made this processor."""
    try:
        with cpuinfo.open("rb") as lines:
            return b"GenuineIntel" in lines.read(512)  # the first core's entry
    except OSError:
        return "GenuineIntel" in platform.processor()
