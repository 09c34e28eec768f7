"""Charts of results: training curves, comparison of runs, token reduction, kernel regression fits."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.viz.figure import COLOURS, GREY, INK, canvas, label, legend, line_style

Run = Mapping[str, Any]
"""A run in the JSON of a comparison."""

MIN_BIN = 20
"""Sentences from which on the BLEU of a bin is drawn as a filled marker, connected to its neighbours."""

SCORE_NAMES = {"accuracy": "masked tokens", "next_accuracy": "next sentence"}
"""Legend entries of the two pre-training scores."""


def draw_training(rows: Sequence[dict[str, Any]], *scores: str) -> Figure:
    """Loss, validation scores and learning rate against minutes of training.

    Args:
        rows: the lines of a metrics.jsonl.
        scores: keys of the validation rows; BLEU by default.
    """
    score, *others = scores or ("bleu",)
    steps = [row for row in rows if row["kind"] == "train"]
    validations = [row for row in rows if row["kind"] == "valid"]
    figure, (loss, quality, rate) = canvas(columns=3, width=4.4, height=3.4)
    for number, (name, rows_of_kind) in enumerate((("training", steps), ("validation", validations))):
        minutes, losses = ([row[key] for row in rows_of_kind] for key in ("minutes", "loss"))
        loss.plot(minutes, losses, label=name, **line_style(number, marker=rows_of_kind is validations))
    label(loss, "Loss", "minutes", "nats per token" if score == "bleu" else "nats")
    legend(loss)
    for number, name in enumerate([score, *others]):
        scored = [row for row in validations if name in row]  # not every validation has all of them
        quality.plot(
            [row["minutes"] for row in scored],
            [row[name] for row in scored],
            **line_style(2 + number),
            label=SCORE_NAMES.get(name, name),
        )
    if others:
        legend(quality)
    title = "BLEU, validation, greedy" if score == "bleu" else f"{score}, validation"
    label(quality, title, "minutes", "BLEU" if score == "bleu" else score)
    rate.plot([row["minutes"] for row in steps], [row["lr"] for row in steps], color=COLOURS[3])
    label(rate, "Learning rate", "minutes", "lr")
    return figure


def draw_comparison(comparison: Mapping[str, Any]) -> Figure:
    """BLEU, BLEU by source length and validation BLEU of several runs, from the JSON of a comparison.

    The tick labels of the first panel are the legend of the other two.
    """
    runs = comparison["runs"]
    figure, (scores, lengths, training) = canvas(columns=3, width=4.8, height=3.2 + 0.12 * len(runs))
    draw_scores(scores, runs)
    draw_lengths(lengths, runs)
    draw_validations(training, runs)
    return figure


def draw_scores(axes: Axes, runs: Sequence[Run]) -> None:
    """BLEU and its confidence interval, the first run on top."""
    for number, run in enumerate(runs):
        style = line_style(number) | {"linestyle": "none"}
        axes.errorbar(run["bleu"], number, xerr=run["half_width"], capsize=3, **style)
    axes.set_yticks(range(len(runs)), [shorten_middle(run["name"]) for run in runs])
    for number, tick in enumerate(axes.get_yticklabels()):
        tick.set_color(line_style(number)["color"])
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.grid(axis="x")
    label(axes, "BLEU, with its 95% interval", "BLEU", "")


def draw_lengths(axes: Axes, runs: Sequence[Run]) -> None:
    """BLEU by source length; runs are shifted sideways so that equal scores do not hide each other."""
    buckets = runs[0]["by_length"]
    is_small = [row["sentences"] < MIN_BIN for row in buckets]
    spacing = min(0.08, 0.6 / len(runs))
    for number, run in enumerate(runs):
        shift = (number - (len(runs) - 1) / 2) * spacing
        positions = np.arange(len(buckets)) + shift
        scores = np.array([row["bleu"] for row in run["by_length"]])
        style = line_style(number)
        axes.plot(positions, np.where(is_small, np.nan, scores), **style)
        axes.plot(positions[is_small], scores[is_small], **style | {"linestyle": "none", "fillstyle": "none"})
    axes.set_xticks(range(len(buckets)), [f"{row['words']}\n({row['sentences']:,})" for row in buckets])
    axes.tick_params(axis="x", labelsize=9)
    axes.set_xlim(-0.5, len(buckets) - 0.5)
    axes.grid(axis="y")
    note = f"; hollow: under {MIN_BIN} sentences" if any(is_small) else ""
    label(axes, "BLEU by source length", f"source words (sentences){note}", "BLEU")


def draw_validations(axes: Axes, runs: Sequence[Run]) -> None:
    """Validation BLEU against minutes of training, for the runs that have metrics."""
    for number, run in enumerate(runs):
        rows = run["validations"] or []
        axes.plot([row["minutes"] for row in rows], [row["bleu"] for row in rows], **line_style(number))
    if not any(run["validations"] for run in runs):
        axes.text(0.5, 0.5, "no metrics.jsonl", color=GREY, ha="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
    axes.grid(axis="y")
    label(axes, "BLEU in training, on validation pairs", "minutes of training", "BLEU, greedy")


def shorten_middle(name: str, max_length: int = 26) -> str:
    """Replaces the middle of a long name by an ellipsis: paths differ at their ends."""
    if len(name) <= max_length:
        return name
    return f"{name[: max_length // 2 - 1]}…{name[-max_length // 2 :]}"


def draw_reduction(results: Mapping[str, Any]) -> Figure:
    """Score against speed, and speed against length, from the JSON of `regard bench reduction`."""
    figure, (scores, speed, lengths) = canvas(columns=3, width=4.6, height=3.8)
    levels = results["levels"]
    baseline = levels[0]
    methods = {
        "merged, layer by layer": [
            level for level in levels if "layer by layer" in level["how"] or level is baseline
        ],
        "half merged in the first two layers": [level for level in levels if "first two" in level["how"]],
        "half merged in the first": [level for level in levels if "first layer" in level["how"]],
        "pruned": [level for level in levels if "pruned" in level["how"]],
    }
    for number, (method, rows) in enumerate(methods.items()):
        if not rows:
            continue
        style = line_style(number) | {"label": method}
        scores.plot([row["times"] for row in rows], [row["score"] for row in rows], **style)
        speed.plot([row["tokens"] for row in rows], [row["times"] for row in rows], **style)
    scores.axhline(baseline["score"], color=GREY, linewidth=0.8, linestyle=":")
    label(scores, f"{results['score'].capitalize()} against speed", "speedup over all tokens", results["score"])
    legend(scores, below=True)
    add_inset(scores, levels)
    speed.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    speed.invert_xaxis()
    label(
        speed,
        "Speed against remaining tokens",
        "fraction of tokens in the last layer (fewer to the right)",
        "speedup",
    )
    reaches = results["reaches"]
    lengths.plot([row["length"] for row in reaches], [row["merged"] / row["plain"] for row in reaches], "o-")
    lengths.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    lengths.set_xscale("log", base=2)
    lengths.set_xticks([row["length"] for row in reaches], [str(row["length"]) for row in reaches])
    label(lengths, "Half of the tokens merged", "tokens per example", "speedup")
    return figure


def add_inset(axes: Axes, levels: Sequence[Mapping[str, Any]]) -> None:
    """Enlarge the region near the first level's score, where others lie so close that they look equal."""
    score = levels[0]["score"]
    spread = max(abs(level["score"] - score) for level in levels)
    near = [level for level in levels if abs(level["score"] - score) < 0.02 * spread]
    if len(near) < 3:
        return
    inset = axes.inset_axes((0.06, 0.12, 0.4, 0.4))
    for line in axes.get_lines():
        style = {
            name: getattr(line, f"get_{name}")() for name in ("color", "marker", "markersize", "linestyle")
        }
        inset.plot(line.get_xdata(), line.get_ydata(), **style)
    for limits, key in ((inset.set_xlim, "times"), (inset.set_ylim, "score")):
        values = [level[key] for level in near]
        margin = 0.15 * (max(values) - min(values)) or 0.01
        limits(min(values) - margin, max(values) + margin)
    inset.yaxis.tick_right()
    inset.locator_params(nbins=4)
    inset.tick_params(labelsize=7)
    axes.indicate_inset_zoom(inset, edgecolor=GREY)


def draw_fits(
    x: np.ndarray, y: np.ndarray, grid: np.ndarray, fits: Mapping[str, np.ndarray], truth: np.ndarray | None
) -> Figure:
    """Kernel regression: the points, each kernel's prediction over the grid, and the true curve if known."""
    figure, (axes,) = canvas(width=7.0, height=4.2)
    axes.plot(x, y, "o", color=GREY, markersize=4, alpha=0.7, label="points")
    if truth is not None:
        axes.plot(grid, truth, "--", color=INK, linewidth=1.2, label="curve without noise")
    for name, predictions in fits.items():
        axes.plot(grid, predictions, linewidth=2, label=name)
    label(axes, "Kernel regression: what each kernel predicts", "x", "y")
    legend(axes, outside=True)
    return figure
