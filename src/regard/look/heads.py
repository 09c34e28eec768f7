"""A layer as a picture: one head, or all of them side by side."""

import numpy as np
from matplotlib.figure import Figure

from regard.look.figure import canvas, heat, label
from regard.look.payload import Layer


def draw_matrix(weights: np.ndarray, layer: Layer, title: str) -> Figure:
    """Weights (left, right) of a layer, of one head or the mean of all, with the tokens at the edges."""
    figure, (axes,) = canvas(
        width=min(14.0, 2.2 + 0.42 * weights.shape[1]), height=min(12.0, 1.8 + 0.32 * weights.shape[0])
    )
    heat(axes, weights, rows=layer.left.labels, columns=layer.right.labels)
    label(axes, title, layer.right.name, layer.left.name)
    return figure


def draw_heads(layer: Layer, name: str, columns: int = 4) -> Figure:
    """Every head of a layer on one scale, a panel each."""
    heads = len(layer.weights)
    across = min(columns, heads)
    down = -(-heads // across)
    width, height = (min(6.0, 1.6 + 0.22 * tokens) for tokens in (layer.shape[2], layer.shape[1]))
    figure, panels = canvas(columns=across, rows=down, width=width, height=height)
    for head, axes in enumerate(panels):
        if head >= heads:
            axes.set_visible(False)
            continue
        heat(axes, layer.weights[head], rows=layer.left.labels, columns=layer.right.labels, high=1.0, bar=False)
        axes.tick_params(labelsize=7)
        label(axes, f"{name}, head {head}", "", "")
    return figure
