"""What is measured faster in C: passes over memory joined into one, compiled where regard runs."""

from regard.engine.gemm import in_c, laid_out, product
from regard.engine.library import address, find_library, kernels
from regard.engine.structs import (
    Around,
    Asked,
    Lesson,
    Looked,
    Remembered,
    Side,
    Stack,
    Sublayer,
    Thought,
    Wanted,
)

__all__ = [
    "Around",
    "Asked",
    "Lesson",
    "Looked",
    "Remembered",
    "Side",
    "Stack",
    "Sublayer",
    "Thought",
    "Wanted",
    "address",
    "find_library",
    "in_c",
    "kernels",
    "laid_out",
    "product",
]
