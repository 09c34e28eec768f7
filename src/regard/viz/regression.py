"""The two pictures of kernel regression: the fitted curves, and who looks at whom before and after."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from regard.viz.figure import GREY, INK, canvas, heat, label, legend


def draw_fits(
    x: np.ndarray, y: np.ndarray, grid: np.ndarray, fits: Mapping[str, np.ndarray], truth: np.ndarray | None
) -> Figure:
    """The points, each kernel's prediction over the grid, and the curve behind them where it is known."""
    figure, (axes,) = canvas(width=7.0, height=4.2)
    axes.plot(x, y, "o", color=GREY, markersize=4, alpha=0.7, label="points")
    if truth is not None:
        axes.plot(grid, truth, "--", color=INK, linewidth=1.2, label="curve without noise")
    for name, line in fits.items():
        axes.plot(grid, line, linewidth=2, label=name)
    label(axes, "Kernel regression: what each kernel predicts", "x", "y")
    legend(axes, beside=True)
    return figure


def draw_weights(x: np.ndarray, before: np.ndarray, after: np.ndarray) -> Figure:
    """Heat maps (query, key) before and after training, on one scale."""
    figure, panels = canvas(columns=2, width=4.6, height=4.0)
    high = max(before.max(), after.max())
    ticks = np.linspace(0, len(x) - 1, 6).round().astype(int)
    for axes, weights, title in zip(
        panels, (before, after), ("Before training", "After training"), strict=True
    ):
        heat(axes, weights, high=high, bar=axes is panels[-1])
        axes.set_xticks(ticks, [f"{x[tick]:.1f}" for tick in ticks])
        axes.set_yticks(ticks, [f"{x[tick]:.1f}" for tick in ticks])
        label(axes, title, "key: x of the point looked at", "query: x of the point that looks")
    return figure
