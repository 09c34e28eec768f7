"""Heat maps of attention weights: one head, all heads of a layer, kernel regression."""

import numpy as np
from matplotlib.figure import Figure

from regard.viz.attention_maps import Layer
from regard.viz.figure import MAX_LABEL_LENGTH, canvas, heat, label


def draw_matrix(weights: np.ndarray, layer: Layer, title: str) -> Figure:
    """Weights (queries, keys) of a layer, of one head or the mean of all, labelled with the tokens."""
    width, height = _size_in_inches(layer, 1.0)
    figure, (axes,) = canvas(width=min(14.0, width), height=min(12.0, height))
    heat(axes, weights, rows=layer.queries.labels, columns=layer.keys.labels)
    label(axes, title, layer.keys.name, layer.queries.name)
    return figure


def draw_heads(layer: Layer, name: str, max_columns: int = 4) -> Figure:
    """All heads of a layer on one colour scale, one panel per head."""
    heads = len(layer.weights)
    columns = min(max_columns, heads)
    rows = -(-heads // columns)
    width, height = (min(6.0, inches) for inches in _size_in_inches(layer, 0.6))
    figure, panels = canvas(columns=columns, rows=rows, width=width, height=height)
    queries, keys = layer.queries.labels, layer.keys.labels
    for head, axes in enumerate(panels):
        if head >= heads:
            axes.set_visible(False)
            continue
        heat(axes, layer.weights[head], rows=queries, columns=keys, high=1.0, bar=False)
        axes.tick_params(labelsize=7)
        label(axes, f"{name}, head {head}", "", "")
    return figure


def draw_kernel_weights(x: np.ndarray, before: np.ndarray, after: np.ndarray) -> Figure:
    """Kernel regression weights (queries, keys) before and after training, on one colour scale."""
    figure, panels = canvas(columns=2, width=4.6, height=4.0)
    high = max(before.max(), after.max())
    ticks = np.linspace(0, len(x) - 1, 6).round().astype(int)
    for axes, weights, title in zip(
        panels, (before, after), ("Before training", "After training"), strict=True
    ):
        heat(axes, weights, high=high, bar=axes is panels[-1])
        axes.set_xticks(ticks, [f"{x[tick]:.1f}" for tick in ticks])
        axes.set_yticks(ticks, [f"{x[tick]:.1f}" for tick in ticks])
        label(axes, title, "x of the key", "x of the query")
    return figure


def _size_in_inches(layer: Layer, scale: float) -> tuple[float, float]:
    """Width and height of a panel: labels and cells."""
    left, bottom = (
        max(min(MAX_LABEL_LENGTH, len(word)) for word in tokens.labels)
        for tokens in (layer.queries, layer.keys)
    )
    _, rows, columns = layer.shape
    return 1.4 + scale * (0.1 * left + 0.42 * columns), 1.2 + scale * (0.08 * bottom + 0.32 * rows)
