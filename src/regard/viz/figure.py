"""Style of all figures (sizes, colours), and saving as PNG and SVG."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from regard.viz.terminal import cut, printable

INK, GREY, PALE = "#1f2933", "#5f6b76", "#e4e7eb"
"""Text; axes and tick labels, with a contrast above 4.5:1 on white; grid."""
COLOURS = ["#165ca1", "#d54356", "#4aa380", "#cb8517", "#a185e2", "#394752", "#7e4013", "#ce6eaf"]
"""Line colours, as in viewer/style.css: distinct for colour-blind readers too, and at least 3:1 on white."""
DASHES = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.5, 2)), (0, (3, 1)))
MARKERS = "os^DvPX"
HEAT = "Blues"
MAX_LABELS, MAX_LABEL_LENGTH = 60, 24
"""Tick labels per axis of a heat map, and characters of each; longer labels are cut."""

STYLE: Any = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.color": PALE,
    "svg.fonttype": "none",  # keep text as text: searchable, and styled by the page
    "svg.hashsalt": "regard",  # reproducible files
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
}


def canvas(
    columns: int = 1, rows: int = 1, *, width: float = 5.2, height: float = 3.8
) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, row by row; `width` and `height` are inches per panel.

    Creates the figure without pyplot, so without global state: safe in threads.
    """
    with matplotlib.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08)
        figure = Figure(figsize=(width * columns, height * rows), layout=layout)
        panels = figure.subplots(rows, columns, squeeze=False)
    return figure, list(panels.flat)


def line_style(number: int, *, marker: bool = True) -> dict[str, Any]:
    """Style of a line: colour and dash, and a marker for lines of few points; distinct for many numbers."""
    style = {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[(number + number // len(COLOURS)) % len(DASHES)],
        "linewidth": 1.6,
    }
    return style | ({"marker": MARKERS[number % len(MARKERS)], "markersize": 4.5} if marker else {})


def label(axes: Axes, title: str, x: str, y: str) -> None:
    """Set the title and axis labels of a panel."""
    axes.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def legend(axes: Axes, *, outside: bool = False, below: bool = False) -> None:
    """Add a legend: inside the panel where it hides least, outside at its right, or below it."""
    if outside:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, handlelength=3)
    elif below:
        axes.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, fontsize=9, frameon=False, handlelength=3
        )
    else:
        axes.legend(loc="best", frameon=False, handlelength=3)


def heat(
    axes: Axes,
    weights: np.ndarray,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    low: float | None = 0.0,
    high: float | None = None,
    colours: str = HEAT,
    bar: bool = True,
) -> None:
    """Heat map of a matrix (queries, keys), with labels for its rows and columns if passed."""
    image = axes.imshow(weights, cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    if rows is not None:
        axes.set_yticks(*ticks(rows), parse_math=False)  # a dollar sign is a dollar sign
    if columns is not None:
        axes.set_xticks(*ticks(columns), rotation=45, ha="right", rotation_mode="anchor", parse_math=False)
    if bar and axes.figure is not None:
        axes.figure.colorbar(image, ax=axes, shrink=0.85)


def ticks(words: Sequence[str]) -> tuple[list[int], list[str]]:
    """Tick positions and labels: at most MAX_LABELS, cut to a readable length, valid in XML."""
    step = -(-len(words) // MAX_LABELS)
    positions = list(range(0, len(words), max(1, step)))
    return positions, [cut(printable(words[position]), MAX_LABEL_LENGTH) for position in positions]


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write `stem`.png and `stem`.svg and return both."""
    return [save_as(figure, stem.with_name(stem.name + extension)) for extension in (".png", ".svg")]


def save_as(figure: Figure, path: Path) -> Path:
    """Write a figure in the format of the file extension; equal figures give equal files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        save_into(figure, file, path.suffix.removeprefix("."))
    return path


def save_into(figure: Figure, file: IO[bytes], form: str = "svg") -> None:
    """Write a figure into an open binary file."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(file, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)
