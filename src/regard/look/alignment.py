"""The alignment matrix: which source words a translated word looked at."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from regard.look.figure import canvas, heat, label


def draw_alignment(
    weights: np.ndarray, source: Sequence[str], target: Sequence[str], title: str = "Alignment"
) -> Figure:
    """Weights (target, source) as a heat map with the tokens at its edges."""
    width = min(14.0, 2.2 + 0.42 * len(source))
    height = min(12.0, 1.8 + 0.32 * len(target))
    figure, (axes,) = canvas(width=width, height=height)
    heat(axes, weights, rows=target, columns=source)
    label(axes, title, "source", "translation")
    return figure
