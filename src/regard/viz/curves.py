"""Training as a picture: loss, BLEU and rate against minutes."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from regard.viz.figure import COLOURS, canvas, label, legend

NAMES = {"accuracy": "hidden words", "next_accuracy": "what follows"}
"""What the two scores of a pre-training are of."""


def draw_training(rows: Sequence[dict[str, Any]], *scores: str) -> Figure:
    """From the lines of metrics.jsonl: what was learned, how well it does by its scores, how fast it went.

    Without scores it is BLEU.
    """
    score, *others = scores or ("bleu",)
    steps = [row for row in rows if row["kind"] == "train"]
    checks = [row for row in rows if row["kind"] == "valid"]
    figure, (loss, quality, rate) = canvas(columns=3, width=4.4, height=3.4)
    loss.plot([row["minutes"] for row in steps], [row["loss"] for row in steps], label="training")
    loss.plot(
        [row["minutes"] for row in checks],
        [row["loss"] for row in checks],
        "o-",
        markersize=3,
        label="validation",
    )
    label(loss, "Loss a token" if score == "bleu" else "Loss", "minutes", "nats")
    legend(loss)
    for place, name in enumerate([score, *others]):
        told = [row for row in checks if name in row]  # not every validation has all of them
        quality.plot(
            [row["minutes"] for row in told],
            [row[name] for row in told],
            "o-",
            markersize=3,
            color=COLOURS[(2, 4)[place % 2]],
            label=NAMES.get(name, name),
        )
    if others:
        legend(quality)
    title = "BLEU, validation, greedy" if score == "bleu" else f"{score}, validation"
    label(quality, title, "minutes", "BLEU" if score == "bleu" else score)
    rate.plot([row["minutes"] for row in steps], [row["lr"] for row in steps], color=COLOURS[3])
    label(rate, "Learning rate", "minutes", "lr")
    return figure
