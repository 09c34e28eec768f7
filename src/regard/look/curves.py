"""Training as a picture: loss, BLEU and rate against minutes."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from regard.look.figure import COLOURS, canvas, label, legend


def draw_training(rows: Sequence[dict[str, Any]], score: str = "bleu") -> Figure:
    """From the lines of metrics.jsonl: what was learned, how well it does by a score, how fast it went."""
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
    quality.plot(
        [row["minutes"] for row in checks],
        [row[score] for row in checks],
        "o-",
        markersize=3,
        color=COLOURS[2],
    )
    title = "BLEU, validation, greedy" if score == "bleu" else f"{score}, validation"
    label(quality, title, "minutes", "BLEU" if score == "bleu" else score)
    rate.plot([row["minutes"] for row in steps], [row["rate"] for row in steps], color=COLOURS[3])
    label(rate, "Learning rate", "minutes", "rate")
    return figure
