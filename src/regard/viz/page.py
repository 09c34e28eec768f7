"""One page a payload: everything in one file, nothing from the network, opens from disk."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from regard.viz.choice import check_head, chosen_layer, every_layer
from regard.viz.measures import distance, entropy
from regard.viz.payload import AttentionMaps, Layer

VIEWER = files("regard.viz") / "viewer"
SCRIPTS = (
    *("payload", "state", "colours", "controls", "words", "scrolled", "heatmap", "lines", "grid", "numbers"),
    "main",
)
"""The parts of the script, in the order in which they stand on each other."""

NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'"
"""The content security policy of a page, before what it may use is added."""


def page(maps: AttentionMaps, layer: str | None = None, head: int | None = None, *, words: bool = False) -> str:
    """The payload as an HTML page: words that light up, heat map, head view, all heads, numbers.

    It opens at a layer and head, unless given the mean head of the layer that aligns best; by token or by word.
    """
    layers, opened = every_layer(maps), chosen_layer(maps, layer)
    check_head(opened, layers[opened], head)
    shown = {"layer": list(layers).index(opened), "head": -1 if head is None else head, "words": words}
    data = {"opened": shown, **viewer_data(maps)}
    return drawing("page.html", "Who looked where", "words", ("theme.css", "style.css"), SCRIPTS, data)


def drawing(
    sections: str, title: str, first: str, styles: Sequence[str], scripts: Sequence[str], data: dict[str, Any]
) -> str:
    """A page whose sections a script fills from the data; `first` names the one that matters most."""
    style = "".join(map(read, styles))
    script = '"use strict";\n' + "\n".join(read(f"{name}.js") for name in scripts)
    return filled(
        "drawing.html",
        policy=f"{NOTHING_ELSE}; script-src {hashed(script)}; style-src {hashed(style)}",
        title=title,
        first=first,
        style=style,
        sections=read(sections),
        data=inert(data),
        script=script,
    )


def filled(template: str, **values: str) -> str:
    """A page with its places filled in, all at once: what is filled in has no places of its own."""
    return re.sub(r"\{\{(\w+)\}\}", lambda place: values[place[1]], read(template))


def read(name: str) -> str:
    return (VIEWER / name).read_text("utf-8")


def hashed(content: str) -> str:
    """What a content security policy lets through: this text and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def inert(content: Any) -> str:
    """JSON that can stand in a script element: no text in it can end the element."""
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def viewer_data(maps: AttentionMaps) -> dict[str, Any]:
    """The payload with all that the page shows; weights are packed, for 500 tokens have millions."""
    sides = maps.sides()
    return {
        "sides": [side.as_json() for side in sides],
        "layers": [
            {
                "name": name,
                "rollout": name not in maps.layers,
                "left": sides.index(layer.left),
                "right": sides.index(layer.right),
                "heads": len(layer.weights),
                "weights": packed(layer.weights),
                **numbers(layer),
            }
            for name, layer in every_layer(maps).items()
        ],
    }


def packed(weights: np.ndarray) -> str:
    """Weights from 0 to 1 as base64 of 16 bits each."""
    return base64.b64encode(np.round(weights.clip(0, 1) * 65535).astype("<u2").tobytes()).decode()


def numbers(layer: Layer) -> dict[str, Any]:
    """Entropy and distance of each head, by token and by word."""
    kinds = {"tokens": layer.weights, "words": layer.in_words().weights}
    return {
        measure.__name__: {kind: np.round(measure(weights), 4).tolist() for kind, weights in kinds.items()}
        for measure in (entropy, distance)
    }
