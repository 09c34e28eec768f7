"""Charts of results: training curves, comparison of runs, token reduction, kernel regression fits."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.viz.figure import COLOURS, GREY, INK, canvas, label, legend

Run = Mapping[str, Any]
"""A run in the JSON of a comparison."""

SCORE_NAMES = {"accuracy": "masked tokens", "next_accuracy": "next sentence"}
"""Legend entries of the two pre-training scores."""

MARKERS = "os^DvPX"
"""Seven, and eight colours: the first 56 runs differ in colour or marker."""


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
    loss.plot([row["minutes"] for row in steps], [row["loss"] for row in steps], label="training")
    loss.plot(
        [row["minutes"] for row in validations],
        [row["loss"] for row in validations],
        "o-",
        markersize=3,
        label="validation",
    )
    label(loss, "Loss per token" if score == "bleu" else "Loss", "minutes", "nats")
    legend(loss)
    for number, name in enumerate([score, *others]):
        scored = [row for row in validations if name in row]  # not every validation has all of them
        quality.plot(
            [row["minutes"] for row in scored],
            [row[name] for row in scored],
            "o-",
            markersize=3,
            color=COLOURS[(2, 4)[number % 2]],
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
        style = run_style(number, line="none")
        axes.errorbar(run["bleu"], number, xerr=run["half_width"], capsize=3, **style)
    axes.set_yticks(range(len(runs)), [shorten_middle(run["name"]) for run in runs])
    for number, tick in enumerate(axes.get_yticklabels()):
        tick.set_color(run_style(number)["color"])
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.grid(axis="x")
    label(axes, "BLEU, with its 95% interval", "BLEU", "")


def draw_lengths(axes: Axes, runs: Sequence[Run]) -> None:
    """BLEU by source length; runs are shifted sideways so that equal scores do not hide each other."""
    buckets = runs[0]["by_length"]
    spacing = min(0.08, 0.6 / len(runs))
    for number, run in enumerate(runs):
        shift = (number - (len(runs) - 1) / 2) * spacing
        heights = [row["bleu"] for row in run["by_length"]]
        axes.plot([x + shift for x in range(len(heights))], heights, **run_style(number))
    axes.set_xticks(range(len(buckets)), [f"{row['words']}\n({row['sentences']:,})" for row in buckets])
    axes.tick_params(axis="x", labelsize=9)
    axes.set_xlim(-0.5, len(buckets) - 0.5)
    axes.grid(axis="y")
    label(axes, "BLEU by source length", "source words (sentences)", "BLEU")


def draw_validations(axes: Axes, runs: Sequence[Run]) -> None:
    """Validation BLEU against minutes of training, for the runs that have metrics."""
    for number, run in enumerate(runs):
        rows = run["validations"] or []
        axes.plot([row["minutes"] for row in rows], [row["bleu"] for row in rows], **run_style(number))
    if not any(run["validations"] for run in runs):
        axes.text(0.5, 0.5, "no metrics.jsonl", color=GREY, ha="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
    axes.grid(axis="y")
    label(axes, "BLEU in training, on validation pairs", "minutes of training", "BLEU, greedy")


def run_style(number: int, line: str = "-") -> dict[str, Any]:
    """Colour and marker of a run, the same in every panel."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 4,
        "linewidth": 1.4,
        "linestyle": line,
    }


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
        style: dict[str, Any] = {
            "color": COLOURS[number],
            "marker": "osD^"[number],
            "markersize": 5,
            "label": method,
        }
        scores.plot([row["times"] for row in rows], [row["score"] for row in rows], **style)
        speed.plot([row["tokens"] for row in rows], [row["times"] for row in rows], **style)
    scores.axhline(baseline["score"], color=GREY, linewidth=0.8, linestyle=":")
    label(scores, f"{results['score'].capitalize()} against speed", "speedup over all tokens", results["score"])
    legend(scores)
    speed.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    speed.invert_xaxis()
    label(speed, "Speed against remaining tokens", "fraction of tokens in the last layer", "speedup")
    reaches = results["reaches"]
    lengths.plot([row["length"] for row in reaches], [row["merged"] / row["plain"] for row in reaches], "o-")
    lengths.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    lengths.set_xscale("log", base=2)
    lengths.set_xticks([row["length"] for row in reaches], [str(row["length"]) for row in reaches])
    label(lengths, "Half of the tokens merged", "tokens per example", "speedup")
    return figure


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
