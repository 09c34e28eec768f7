"""Training as a picture: loss, BLEU and rate against minutes."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from regard.look.figure import COLOURS, canvas, label, legend


def draw_training(rows: Sequence[dict[str, Any]]) -> Figure:
    """From the lines of metrics.jsonl: what was learned, how well it translates, how fast it went."""
    steps = [row for row in rows if row["kind"] == "train"]
    checks = [row for row in rows if row["kind"] == "valid"]
    figure, (loss, bleu, rate) = canvas(columns=3, width=4.4, height=3.4)
    loss.plot([row["minutes"] for row in steps], [row["loss"] for row in steps], label="training")
    loss.plot(
        [row["minutes"] for row in checks],
        [row["loss"] for row in checks],
        "o-",
        markersize=3,
        label="validation",
    )
    label(loss, "Loss a token", "minutes", "nats")
    legend(loss)
    bleu.plot(
        [row["minutes"] for row in checks],
        [row["bleu"] for row in checks],
        "o-",
        markersize=3,
        color=COLOURS[2],
    )
    label(bleu, "BLEU, validation, greedy", "minutes", "BLEU")
    rate.plot([row["minutes"] for row in steps], [row["rate"] for row in steps], color=COLOURS[3])
    label(rate, "Learning rate", "minutes", "rate")
    return figure
