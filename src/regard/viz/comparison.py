"""Runs side by side as a picture: BLEU, BLEU by source length, and how BLEU rose in training."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.viz.figure import COLOURS, GREY, canvas, label

MARKERS = "os^DvPX"
"""Seven, where there are eight colours: no two of many runs have the same of both."""

Run = Mapping[str, Any]


def draw_comparison(found: Mapping[str, Any]) -> Figure:
    """From the JSON of a comparison. The first panel names the runs, and so the lines of the other two."""
    runs = found["runs"]
    figure, (scores, lengths, training) = canvas(columns=3, width=4.8, height=3.2 + 0.12 * len(runs))
    draw_scores(scores, runs)
    draw_lengths(lengths, runs)
    draw_validations(training, runs)
    return figure


def draw_scores(axes: Axes, runs: Sequence[Run]) -> None:
    """BLEU and its confidence interval, the first run on top."""
    for place, run in enumerate(runs):
        axes.errorbar(run["bleu"], place, xerr=run["half_width"], capsize=3, **look(place, line="none"))
    axes.set_yticks(range(len(runs)), [shortened(run["name"]) for run in runs])
    for place, name in enumerate(axes.get_yticklabels()):
        name.set_color(look(place)["color"])
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.grid(axis="x")
    label(axes, "BLEU, with its 95% interval", "BLEU", "")


def draw_lengths(axes: Axes, runs: Sequence[Run]) -> None:
    """BLEU by source length; the runs stand a little apart, so that equal ones are seen."""
    buckets = runs[0]["by_length"]
    apart = min(0.08, 0.6 / len(runs))
    for place, run in enumerate(runs):
        shift = (place - (len(runs) - 1) / 2) * apart
        heights = [row["bleu"] for row in run["by_length"]]
        axes.plot([x + shift for x in range(len(heights))], heights, **look(place))
    axes.set_xticks(range(len(buckets)), [f"{row['words']}\n({row['sentences']:,})" for row in buckets])
    axes.tick_params(axis="x", labelsize=9)
    axes.set_xlim(-0.5, len(buckets) - 0.5)
    axes.grid(axis="y")
    label(axes, "BLEU by source length", "source words (sentences)", "BLEU")


def draw_validations(axes: Axes, runs: Sequence[Run]) -> None:
    """Validation BLEU against the minutes of training, for the runs that tell."""
    for place, run in enumerate(runs):
        rows = run["validations"] or []
        axes.plot([row["minutes"] for row in rows], [row["bleu"] for row in rows], **look(place))
    if not any(run["validations"] for run in runs):
        axes.text(0.5, 0.5, "no metrics.jsonl tells", color=GREY, ha="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
    axes.grid(axis="y")
    label(axes, "BLEU in training, on validation pairs", "minutes of training", "BLEU, greedy")


def look(place: int, line: str = "-") -> dict[str, Any]:
    """Colour and marker of a run, the same in every panel."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[place % len(MARKERS)],
        "markersize": 4,
        "linewidth": 1.4,
        "linestyle": line,
    }


def shortened(name: str, most: int = 26) -> str:
    """A long name keeps its ends, where paths differ."""
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-most // 2 :]}"
