"""Attention over an image: an HTML page, figures, and which patches were merged."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.viz.analysis import all_layers, check_head, select_layer
from regard.viz.attention_maps import AttentionMaps, Layer
from regard.viz.figure import COLOURS, INK, canvas
from regard.viz.html_page import page_title, viewer_data, viewer_page

SCRIPTS = ("payload", "state", "colours", "controls", "image")
OVERLAY = 0xFF, 0x8C, 0x14
"""Colour of the weights over an image."""


@dataclass(frozen=True, eq=False)
class ImageAttention:
    """An image as the model reads it, and its attention weights."""

    title: str
    pixels: np.ndarray
    """uint8 RGB (height, width, 3)."""
    rows: int
    columns: int
    """Of the grid of patches."""
    prefix_tokens: int
    """Tokens before the patches: 1 with a class token, else 0."""
    maps: AttentionMaps
    groups: Sequence[np.ndarray] = ()
    """For each layer that merged tokens, the token that each patch belongs to: (patches,)."""

    def patch_weights(self, layer: Layer, head: int | None = None) -> np.ndarray:
        """Weights of the patches (rows, columns): queried by the class token, or the mean over all patches.

        Args:
            layer: a layer of `maps`, or its rollout.
            head: one head; the mean of all by default.
        """
        weights = layer.weights.mean(0) if head is None else layer.weights[head]
        row = weights[0] if self.prefix_tokens else weights.mean(0)
        grid: np.ndarray = row[self.prefix_tokens :].reshape(self.rows, self.columns)
        return grid


def image_attention_page(image: ImageAttention, layer: str | None = None, head: int | None = None) -> str:
    """The image as an HTML page: the patch under the pointer highlights the patches it attends to.

    Args:
        image: the image and its attention weights.
        layer: the layer to open; the last one, or the rollout, by default.
        head: the head to open; the mean of all heads by default.
    """
    layers = all_layers(image.maps)
    selected = layer or list(layers)[-1]
    select_layer(image.maps, selected)
    check_head(selected, layers[selected], head)
    opened = {
        "layer": list(layers).index(selected),
        "head": -1 if head is None else head,
        "words": False,
        "query": 0 if image.prefix_tokens else -1,
    }
    height, width, _ = image.pixels.shape
    image_data = {
        "name": image.maps.input.text,
        "title": image.title,
        "width": width,
        "height": height,
        "rows": image.rows,
        "columns": image.columns,
        "before": image.prefix_tokens,
        "pixels": base64.b64encode(image.pixels.tobytes()).decode(),
    }
    groups = [tokens.tolist() for tokens in image.groups]
    return viewer_page(
        "image.html",
        page_title(image.maps),
        "image",
        styles=("theme.css", "style.css", "image.css"),
        scripts=SCRIPTS,
        data={"opened": opened, "image": image_data, "groups": groups, **viewer_data(image.maps)},
    )


def draw_image_attention(image: ImageAttention, name: str | None = None, head: int | None = None) -> Figure:
    """The image, its attention rollout, and all heads of a layer or one of them.

    Args:
        image: the image and its attention weights.
        name: the layer; the last one by default.
        head: one head; all of them by default.
    """
    layers = all_layers(image.maps)
    name = select_layer(image.maps, name)
    check_head(name, layers[name], head)
    heads = range(len(layers[name].weights)) if head is None else (head,)
    rollouts = [layer for layer in layers if layer.endswith("rollout")]
    panel_count = 1 + len(rollouts) + len(heads)
    columns = min(4, panel_count)
    figure, panels = canvas(columns=columns, rows=-(-panel_count // columns), width=2.6, height=2.9)
    for axes in panels:
        axes.set_axis_off()
    first, *others = panels
    first.imshow(image.pixels, interpolation="nearest")
    _set_title(first, image.title)
    for layer in rollouts:
        axes, *others = others
        _draw_overlay(axes, image, image.patch_weights(layers[layer]))
        _set_title(axes, "rollout: all layers")
    for number, axes in zip(heads, others, strict=False):
        _draw_overlay(axes, image, image.patch_weights(layers[name], number))
        _set_title(axes, name if name.endswith("rollout") else f"{name}, head {number}")
    return figure


def _set_title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", color=INK, fontsize=9, parse_math=False)


def _draw_overlay(axes: Axes, image: ImageAttention, weights: np.ndarray) -> None:
    """The darkened image under the weights, scaled so that the largest is opaque."""
    height, width, _ = image.pixels.shape
    axes.imshow(image.pixels // 2, interpolation="nearest")
    colours = np.zeros((*weights.shape, 4))
    colours[..., :3] = np.array(OVERLAY) / 255
    colours[..., 3] = 0.88 * weights / max(1e-12, float(weights.max()))
    axes.imshow(colours, extent=(-0.5, width - 0.5, height - 0.5, -0.5), interpolation="nearest")


def draw_merged_patches(image: ImageAttention) -> Figure:
    """The image, and per layer that merged tokens, the patches outlined in their mean colour."""
    columns = min(4, 1 + len(image.groups))
    rows = -(-(1 + len(image.groups)) // columns)
    figure, (first, *others) = canvas(columns=columns, rows=rows, width=2.6, height=2.9)
    first.imshow(image.pixels, interpolation="nearest")
    _set_title(first, image.title)
    for axes in (first, *others):
        axes.set_axis_off()
    for number, (axes, groups) in enumerate(zip(others, image.groups, strict=False)):
        axes.imshow(average_merged_patches(image, groups), interpolation="nearest")
        _draw_outlines(axes, image, groups.reshape(image.rows, image.columns))
        _set_title(axes, f"after layer {number}: {len(np.unique(groups))} of {len(groups)} patches")
    return figure


def average_merged_patches(image: ImageAttention, groups: np.ndarray) -> np.ndarray:
    """The pixels (height, width, 3), merged patches replaced by the mean colour of their group (patches,)."""
    height, width = image.pixels.shape[0] // image.rows, image.pixels.shape[1] // image.columns
    group_of_pixel = groups.reshape(image.rows, image.columns).repeat(height, 0).repeat(width, 1)
    averaged = image.pixels.copy()
    for group in np.unique(groups):
        if (groups == group).sum() > 1:
            averaged[group_of_pixel == group] = image.pixels[group_of_pixel == group].mean(0)
    return averaged


def _draw_outlines(axes: Axes, image: ImageAttention, groups: np.ndarray) -> None:
    """Lines between neighbouring patches of different tokens."""
    height, width = image.pixels.shape[0] / image.rows, image.pixels.shape[1] / image.columns
    style: dict[str, Any] = {"color": COLOURS[3], "linewidth": 0.8}
    for row in range(image.rows):
        for column in range(image.columns):
            left, top = column * width - 0.5, row * height - 0.5
            if column and groups[row, column] != groups[row, column - 1]:
                axes.plot([left, left], [top, top + height], **style)
            if row and groups[row, column] != groups[row - 1, column]:
                axes.plot([left, left + width], [top, top], **style)
