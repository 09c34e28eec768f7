"""Attention over an image: a page, pictures, and which patches became one."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.viz.choice import check_head, chosen_layer, every_layer
from regard.viz.figure import COLOURS, INK, canvas
from regard.viz.page import drawing, viewer_data
from regard.viz.payload import AttentionMaps, Layer

SCRIPTS = ("payload", "state", "colours", "controls", "image")
OVER = "#ff8c14"
"""What was looked at."""


@dataclass(frozen=True, eq=False)
class ImageAttention:
    """An image as a model saw it, and where it looked."""

    title: str
    pixels: np.ndarray
    """Bytes (height, width, 3)."""
    rows: int
    columns: int
    """Of patches."""
    before: int
    """Tokens before the patches: a class token, or none."""
    maps: AttentionMaps
    groups: Sequence[np.ndarray] = ()
    """After each layer that merged, which token each patch became: (patches,)."""

    def over(self, layer: Layer, head: int | None = None) -> np.ndarray:
        """What the class token, or the mean of all patches, looked at: (rows, columns)."""
        weights = layer.weights.mean(0) if head is None else layer.weights[head]
        row = weights[0] if self.before else weights.mean(0)
        maps: np.ndarray = row[self.before :].reshape(self.rows, self.columns)
        return maps


def image_page(seen: ImageAttention, layer: str | None = None, head: int | None = None) -> str:
    """The image in an HTML page: a patch that is pointed at lights up what it looked at, in every head."""
    layers = every_layer(seen.maps)
    opened = layer or list(layers)[-1]
    chosen_layer(seen.maps, opened)
    check_head(opened, layers[opened], head)
    shown = {
        "layer": list(layers).index(opened),
        "head": -1 if head is None else head,
        "words": False,
        "query": 0 if seen.before else -1,
    }
    height, width, _ = seen.pixels.shape
    about = {
        "name": seen.maps.read.text,
        "title": seen.title,
        "width": width,
        "height": height,
        "rows": seen.rows,
        "columns": seen.columns,
        "before": seen.before,
        "pixels": base64.b64encode(seen.pixels.tobytes()).decode(),
    }
    groups = [each.tolist() for each in seen.groups]
    data = {"opened": shown, "image": about, "groups": groups, **viewer_data(seen.maps)}
    styles = ("theme.css", "style.css", "image.css")
    return drawing("image.html", "Where it looked", "image", styles, SCRIPTS, data)


def draw_seen(seen: ImageAttention, name: str | None = None, head: int | None = None) -> Figure:
    """The image, the rollout over it, and the heads of a layer, the last unless named; or one head alone."""
    layers = every_layer(seen.maps)
    name = chosen_layer(seen.maps, name)
    check_head(name, layers[name], head)
    heads = range(len(layers[name].weights)) if head is None else (head,)
    rolled = [each for each in layers if each.endswith("rollout")]
    count = 1 + len(rolled) + len(heads)
    across = min(4, count)
    figure, panels = canvas(columns=across, rows=-(-count // across), width=2.6, height=2.9)
    for axes in panels:
        axes.set_axis_off()
    first, *others = panels
    first.imshow(seen.pixels, interpolation="nearest")
    title(first, seen.title)
    for each in rolled:
        axes, *others = others
        lay(axes, seen, seen.over(layers[each]))
        title(axes, "rollout: all layers")
    for number, axes in zip(heads, others, strict=False):
        lay(axes, seen, seen.over(layers[name], number))
        title(axes, name if name.endswith("rollout") else f"{name}, head {number}")
    return figure


def title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", color=INK, fontsize=9, parse_math=False)


def lay(axes: Axes, seen: ImageAttention, weights: np.ndarray) -> None:
    """The image, darkened, and the weights over it, the strongest full."""
    height, width, _ = seen.pixels.shape
    axes.imshow(seen.pixels // 2, interpolation="nearest")
    red, green, blue = (int(OVER[at : at + 2], 16) / 255 for at in (1, 3, 5))
    colours = np.zeros((*weights.shape, 4))
    colours[...] = red, green, blue, 0
    colours[..., 3] = 0.88 * weights / max(1e-12, float(weights.max()))
    axes.imshow(colours, extent=(-0.5, width - 0.5, height - 0.5, -0.5), interpolation="nearest")


def draw_groups(seen: ImageAttention) -> Figure:
    """The image, and after each layer that merged, patches that are one token in one colour, lines between."""
    across = min(4, 1 + len(seen.groups))
    down = -(-(1 + len(seen.groups)) // across)
    figure, (first, *others) = canvas(columns=across, rows=down, width=2.6, height=2.9)
    first.imshow(seen.pixels, interpolation="nearest")
    title(first, seen.title)
    for axes in (first, *others):
        axes.set_axis_off()
    for number, (axes, groups) in enumerate(zip(others, seen.groups, strict=False)):
        axes.imshow(joined(seen, groups), interpolation="nearest")
        outline(axes, seen, groups.reshape(seen.rows, seen.columns))
        title(axes, f"after layer {number}: {len(np.unique(groups))} of {len(groups)} patches")
    return figure


def joined(seen: ImageAttention, groups: np.ndarray) -> np.ndarray:
    """The pixels, with the mean colour of the group where patches have become one."""
    high, wide = seen.pixels.shape[0] // seen.rows, seen.pixels.shape[1] // seen.columns
    each = groups.reshape(seen.rows, seen.columns).repeat(high, 0).repeat(wide, 1)
    found = seen.pixels.copy()
    for group in np.unique(groups):
        if (groups == group).sum() > 1:
            found[each == group] = seen.pixels[each == group].mean(0)
    return found


def outline(axes: Axes, seen: ImageAttention, groups: np.ndarray) -> None:
    """Lines where neighbouring patches are not one token."""
    high, wide = seen.pixels.shape[0] / seen.rows, seen.pixels.shape[1] / seen.columns
    style: dict[str, Any] = {"color": COLOURS[3], "linewidth": 0.8}
    for row in range(seen.rows):
        for column in range(seen.columns):
            left, top = column * wide - 0.5, row * high - 0.5
            if column and groups[row, column] != groups[row, column - 1]:
                axes.plot([left, left], [top, top + high], **style)
            if row and groups[row, column] != groups[row - 1, column]:
                axes.plot([left, left + wide], [top, top], **style)
