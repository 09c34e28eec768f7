"""Charts and heat maps of the HTML reports: inline SVG with the colours of the page's style sheet."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from regard.viz.figure import COLOURS, DASHES
from regard.viz.terminal import cut, printable

WIDTH, HEIGHT = 400, 220
"""Size of a chart in SVG units, about one pixel each on a phone."""
TOP, RIGHT = 10, 12
"""Margins."""
HOLLOW = ' class="hollow"'
LETTER = 6.6
"""Mean width of a letter in SVG units."""

MAP_WIDTH, CELL_HEIGHT, MAX_CELL_WIDTH = 900, 26, 56
MAX_LABEL_LENGTH = 16
MIN_WEIGHT = 0.005
"""Smaller attention weights are not drawn."""

MARKERS = (
    "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0z",
    "M-2.9 -2.9h5.8v5.8h-5.8z",
    "M0 -3.8L3.6 2.9H-3.6z",
    "M0 -4L4 0L0 4L-4 0z",
    "M0 3.8L3.6 -2.9H-3.6z",
    "M-3.6 -1.2h2.4v-2.4h2.4v2.4h2.4v2.4h-2.4v2.4h-2.4v-2.4h-2.4z",
    "M-3 -3L3 3M-3 3L3 -3",
)
"""Outlines of the markers, as SVG paths around the origin."""


@dataclass(frozen=True)
class Series:
    """A line of a chart."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    number: int = 0
    """Chooses colour, dash and marker."""
    markers: bool = False
    hollow: Sequence[bool] = ()
    """Which points are drawn hollow and unconnected; none by default."""

    def is_hollow(self, index: int) -> bool:
        return bool(self.hollow) and self.hollow[index]


@dataclass(frozen=True)
class Plane:
    """The area of a chart with the lines: its left and lower border, and the ranges of both axes."""

    left: float
    floor: float
    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, x: float) -> float:
        low, high = self.x
        return round(self.left + (x - low) / (high - low) * (WIDTH - self.left - RIGHT), 1)

    def down(self, y: float) -> float:
        low, high = self.y
        return round(TOP + (high - y) / (high - low) * (self.floor - TOP), 1)


def line_chart(
    title: str, x_label: str, series: Sequence[Series], *, form: str = ".3g", names: Sequence[str] = ()
) -> str:
    """A chart with a legend that shows the values at the pointer.

    Args:
        title: What is drawn, with its unit.
        x_label: Name and unit of the horizontal axis.
        series: The lines, with at least one point each.
        form: Format of the values, as in `format`.
        names: Tick labels of the positions 0, 1, 2 ..., for categories instead of numbers.
    """
    xs = [x for line in series for x in line.x]
    ys = [y for line in series for y in line.y]
    y_ticks = nice_ticks(min(ys), max(ys))
    y_labels = [tick_text(tick, y_ticks) for tick in y_ticks]
    if names:
        x_ticks, x_labels = [float(index) for index in range(len(names))], list(names)
    else:
        x_ticks = nice_ticks(0.0, max(xs), inside=True)
        x_labels = [tick_text(tick, x_ticks) for tick in x_ticks]
    plane = Plane(
        left=12 + LETTER * max(map(len, y_labels)),
        floor=HEIGHT - (48 if names else 36),
        x=(-0.5, len(names) - 0.5) if names else (0.0, max(xs) or 1.0),
        y=(y_ticks[0], y_ticks[-1]),
    )
    parts = [
        *draw_y_axis(plane, y_ticks, y_labels),
        *draw_x_axis(plane, x_ticks, x_labels, x_label),
        *(draw_series(plane, line) for line in series),
        f'<path class="pointer" d="M0 {TOP}V{plane.floor}"/>',
    ]
    unit = x_label.partition(" (")[0]
    points = [
        [
            [plane.across(x), plane.down(y), x_text(x, names), format(y, form)]
            for x, y in zip(line.x, line.y, strict=True)
        ]
        for line in series
    ]
    data = json.dumps({"unit": unit, "series": points}, separators=(",", ":"))
    last = ", ".join(f"{line.name}, last {format(line.y[-1], form)}" for line in series)
    label = escape(f"{title} by {unit}: {last}")
    return (
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" tabindex="0" aria-label="{label}" '
        f'data-chart="{escape(data)}">{"".join(parts)}</svg><p class="legend" role="status" aria-live="polite">'
        f'{"".join(map(legend_entry, series))}<span class="at"></span></p></figure>'
    )


def x_text(x: float, names: Sequence[str]) -> str:
    return names[round(x)].replace("\n", " ") if names else f"{round(x, 2):g}"


def draw_y_axis(plane: Plane, ticks: Sequence[float], labels: Sequence[str]) -> Iterator[str]:
    for tick, text in zip(ticks, labels, strict=True):
        y = plane.down(tick)
        yield f'<path class="grid" d="M{plane.left:.0f} {y}H{WIDTH - RIGHT}"/>'
        yield f'<text x="{plane.left - 6:.0f}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'


def draw_x_axis(plane: Plane, ticks: Sequence[float], labels: Sequence[str], title: str) -> Iterator[str]:
    yield f'<path class="axis" d="M{plane.left:.0f} {plane.floor}H{WIDTH - RIGHT}"/>'
    for tick, text in zip(ticks, labels, strict=True):
        for number, line in enumerate(text.split("\n")):
            y = plane.floor + 15 + 13 * number
            yield f'<text x="{plane.across(tick)}" y="{y}" text-anchor="middle">{escape(line)}</text>'
    middle = (plane.left + WIDTH - RIGHT) / 2
    yield f'<text x="{middle:.0f}" y="{HEIGHT - 3}" text-anchor="middle">{escape(title)}</text>'


def draw_series(plane: Plane, line: Series) -> str:
    points = [(plane.across(x), plane.down(y)) for x, y in zip(line.x, line.y, strict=True)]
    path = "".join(
        f"{'L' if index else 'M'}{x} {y}"
        for stretch in stretches(points, line)
        for index, (x, y) in enumerate(stretch)
    )
    marker = MARKERS[line.number % len(MARKERS)]
    markers = [
        f'<path{HOLLOW if line.is_hollow(index) else ""} transform="translate({x} {y})" d="{marker}"/>'
        for index, (x, y) in enumerate(points)
        if line.markers
    ]
    return f'<g class="{style_class(line)}"><path class="curve" d="{path}"/>{"".join(markers)}</g>'


def legend_entry(line: Series) -> str:
    """A sample of the line, its name, and its value at the pointer."""
    outline = MARKERS[line.number % len(MARKERS)]
    marker = f'<path transform="translate(13 5)" d="{outline}"/>' if line.markers else ""
    return (
        f'<span class="entry"><svg class="sample {style_class(line)}" viewBox="0 0 26 10" aria-hidden="true">'
        f'<path class="curve" d="M0 5H26"/>{marker}</svg>{escape(line.name)} <b></b></span>'
    )


def style_class(line: Series) -> str:
    """CSS classes of the colour and dash, which are those of `regard.viz.figure.line_style`."""
    colour = line.number % len(COLOURS)
    return f"series-{colour} dash-{(line.number + line.number // len(COLOURS)) % len(DASHES)}"


def stretches(points: Sequence[tuple[float, float]], line: Series) -> list[list[tuple[float, float]]]:
    """The points that are connected: those between hollow ones."""
    parts: list[list[tuple[float, float]]] = [[]]
    for index, point in enumerate(points):
        if line.is_hollow(index):
            parts.append([])
        else:
            parts[-1].append(point)
    return [part for part in parts if part]


def nice_ticks(low: float, high: float, count: int = 5, *, inside: bool = False) -> list[float]:
    """About `count` round numbers that include the range, or are inside it."""
    if high <= low:
        low, high = (low - 1, low + 1) if not inside else (low, low + 1)
    rough = (high - low) / count
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough * 0.999)
    first, last = (math.ceil, math.floor) if inside else (math.floor, math.ceil)
    begin, end = first(round(low / step, 6)), last(round(high / step, 6))
    return [number * step for number in range(begin, max(end, begin + 1) + 1)]


def tick_text(tick: float, ticks: Sequence[float]) -> str:
    """A tick label with as many digits as the step between the ticks needs."""
    step = ticks[1] - ticks[0]
    if step < 1e-3:
        return f"{tick:.1e}" if tick else "0"
    return f"{tick:,.{max(0, -math.floor(math.log10(step) + 1e-6))}f}"


def heat_map(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], label: str, most: int) -> str:
    """Attention weights (queries, keys) as an SVG as wide as the card.

    Args:
        weights: Weights from 0 to 1.
        rows: Labels of the queries.
        columns: Labels of the keys.
        label: Describes the picture for screen readers.
        most: The largest number of columns of the pictures on the page, which then have cells of one size.
    """
    row_names = [cut(printable(word), MAX_LABEL_LENGTH) for word in rows]
    column_names = [cut(printable(word), MAX_LABEL_LENGTH) for word in columns]
    left = LETTER * MAX_LABEL_LENGTH + 14
    cell = min(MAX_CELL_WIDTH, (MAP_WIDTH - left - 60) / most)
    top = 14 + 0.75 * LETTER * max(map(len, column_names))
    height = top + CELL_HEIGHT * len(rows) + 4
    parts = []
    for column, name in enumerate(column_names):
        transform = f"translate({left + cell * (column + 0.45):.1f} {top - 6:.1f}) rotate(-48)"
        parts.append(f'<text transform="{transform}">{escape(name)}</text>')
    for row, name in enumerate(row_names):
        y = top + CELL_HEIGHT * row
        parts.append(f'<text x="{left - 8:.1f}" y="{y + 17.5:.1f}" text-anchor="end">{escape(name)}</text>')
        for column, weight in enumerate(weights[row]):
            if weight < MIN_WEIGHT:
                continue
            area = (
                f'x="{left + cell * column:.1f}" y="{y:.1f}" width="{cell - 1:.1f}" height="{CELL_HEIGHT - 1}"'
            )
            tip = f"“{rows[row]}” attends to “{columns[column]}”: {weight:.0%}"
            title = escape(printable(tip))
            parts.append(f'<rect {area} fill-opacity="{weight:.3f}"><title>{title}</title></rect>')
    width = cell * len(columns)
    frame = (
        f'<path class="axis" d="M{left:.1f} {top:.1f}h{width:.1f}v{CELL_HEIGHT * len(rows)}h-{width:.1f}z"/>'
    )
    return (
        f'<svg class="heat" viewBox="0 0 {MAP_WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">'
        f"{frame}{''.join(parts)}</svg>"
    )
