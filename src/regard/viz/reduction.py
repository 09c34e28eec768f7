"""What fewer tokens bring, as a picture: score against speed, and speed against length."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from regard.viz.figure import COLOURS, GREY, canvas, label, legend


def draw_reduction(found: Mapping[str, Any]) -> Figure:
    """From the JSON of `regard bench reduction`."""
    figure, (scores, work, lengths) = canvas(columns=3, width=4.6, height=3.8)
    levels = found["levels"]
    kinds = {
        "merged, layer by layer": [
            each for each in levels if "layer by layer" in each["how"] or each is levels[0]
        ],
        "half merged in the first two layers": [each for each in levels if "first two" in each["how"]],
        "half merged in the first": [each for each in levels if "first layer" in each["how"]],
        "pruned": [each for each in levels if "pruned" in each["how"]],
    }
    for place, (name, rows) in enumerate(kinds.items()):
        if not rows:
            continue
        style: dict[str, Any] = {
            "color": COLOURS[place],
            "marker": "osD^"[place],
            "markersize": 5,
            "label": name,
        }
        scores.plot([each["times"] for each in rows], [each["score"] for each in rows], **style)
        work.plot([each["tokens"] for each in rows], [each["times"] for each in rows], **style)
    scores.axhline(levels[0]["score"], color=GREY, linewidth=0.8, linestyle=":")
    label(
        scores,
        f"{found['score'].capitalize()} against speed",
        "times as fast as with all tokens",
        found["score"],
    )
    legend(scores)
    work.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    work.invert_xaxis()
    label(work, "Speed against tokens left", "share of the tokens in the last layer", "times as fast")
    reaches = found["reaches"]
    lengths.plot(
        [each["length"] for each in reaches], [each["merged"] / each["plain"] for each in reaches], "o-"
    )
    lengths.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    lengths.set_xscale("log", base=2)
    lengths.set_xticks([each["length"] for each in reaches], [str(each["length"]) for each in reaches])
    label(lengths, "Half of the tokens merged", "tokens of an example", "times as fast")
    return figure
