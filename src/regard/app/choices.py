"""Choices of the command line, as the rooms below know them."""

from enum import Enum


class LongText(Enum):
    """What happens to a line with more tokens than the model has places for."""

    split = "split"
    cut = "cut"
    refuse = "refuse"
