"""What is measured faster in C: passes over memory joined into one, compiled where regard runs."""

from regard.native.compile import address, kernels, library
from regard.native.products import in_c, laid_out, product
from regard.native.structures import (
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
    "in_c",
    "kernels",
    "laid_out",
    "library",
    "product",
]
