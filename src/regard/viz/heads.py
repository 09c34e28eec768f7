"""A layer as a picture: one head, or all of them side by side."""

import numpy as np
from matplotlib.figure import Figure

from regard.viz.figure import LONGEST_WORD, canvas, heat, label
from regard.viz.payload import Layer


def draw_matrix(weights: np.ndarray, layer: Layer, title: str) -> Figure:
    """Weights (left, right) of a layer, of one head or the mean of all, with the tokens at the edges."""
    width, height = room(layer, 1.0)
    figure, (axes,) = canvas(width=min(14.0, width), height=min(12.0, height))
    heat(axes, weights, rows=layer.left.labels, columns=layer.right.labels)
    label(axes, title, layer.right.name, layer.left.name)
    return figure


def draw_heads(layer: Layer, name: str, columns: int = 4) -> Figure:
    """Every head of a layer on one scale, a panel each."""
    heads = len(layer.weights)
    across = min(columns, heads)
    down = -(-heads // across)
    width, height = (min(6.0, inches) for inches in room(layer, 0.6))
    figure, panels = canvas(columns=across, rows=down, width=width, height=height)
    for head, axes in enumerate(panels):
        if head >= heads:
            axes.set_visible(False)
            continue
        heat(axes, layer.weights[head], rows=layer.left.labels, columns=layer.right.labels, high=1.0, bar=False)
        axes.tick_params(labelsize=7)
        label(axes, f"{name}, head {head}", "", "")
    return figure


def room(layer: Layer, scale: float) -> tuple[float, float]:
    """Inches for a layer's cells and for the labels beside and below them."""
    beside, below = (
        max(min(LONGEST_WORD, len(word)) for word in side.labels) for side in (layer.left, layer.right)
    )
    _, rows, columns = layer.shape
    return 1.4 + scale * (0.1 * beside + 0.42 * columns), 1.2 + scale * (0.08 * below + 0.32 * rows)
