"""Matrix products whose rows do not depend on the rows beside them.

For few rows Intel's library takes other kernels than for many, which add up in another order: a sentence alone
would then have other last bits than the same sentence in a batch. Its strict mode keeps to one order; it costs
nothing measurable but for single rows. On other makers' processors that mode is slow, and not needed: there
only fewer than four rows are treated otherwise, and the search fills them up to four.
"""

import os
import platform
from pathlib import Path

SETTING = "MKL_CBWR"  # read by the library at its first product, so it must be there before


def keep_one_order() -> None:
    """Ask for the strict mode where it matters, unless the user has chosen a mode."""
    if SETTING not in os.environ and is_intel():
        os.environ[SETTING] = "AUTO,STRICT"


def is_intel(told: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether Intel made this processor."""
    try:
        with told.open("rb") as lines:
            return b"GenuineIntel" in lines.read(512)  # of many cores, the first tells
    except OSError:
        return "GenuineIntel" in platform.processor()
