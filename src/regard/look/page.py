"""One page a payload: everything in one file, nothing from the network, opens from disk."""

import base64
import hashlib
import json
import re
from importlib.resources import files
from typing import Any

import numpy as np

from regard.errors import RegardError
from regard.look.measures import distance, entropy, rollout
from regard.look.payload import Layer, Looked

VIEWER = files("regard.look") / "viewer"
SCRIPTS = ("payload", "state", "colours", "words", "scrolled", "heatmap", "lines", "grid", "numbers", "main")
"""The parts of the script, in the order in which they stand on each other."""


def page(looked: Looked) -> str:
    """The payload as an HTML page: words that light up, heat map, head view, all heads, numbers."""
    if not looked.layers:
        raise RegardError("this model has no attention: there is nothing to look at")
    style = read("style.css")
    script = '"use strict";\n' + "\n".join(read(f"{name}.js") for name in SCRIPTS)
    filled = {
        "policy": f"default-src 'none'; script-src {hashed(script)}; style-src {hashed(style)}; "
        "base-uri 'none'; form-action 'none'",
        "style": style,
        "data": inert(viewer_data(looked)),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: filled[place[1]], read("page.html"))


def read(name: str) -> str:
    return (VIEWER / name).read_text("utf-8")


def hashed(content: str) -> str:
    """What a content security policy lets through: this text and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def inert(content: Any) -> str:
    """JSON that can stand in a script element: no text in it can end the element."""
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def viewer_data(looked: Looked) -> dict[str, Any]:
    """The payload with all that the page shows; weights are packed, for 500 tokens have millions."""
    sides = looked.sides()
    every = {**looked.layers, **rollout(looked)}
    names = list(every)
    return {
        "sides": [side.as_json() for side in sides],
        "opened": names.index(opened_first(looked)),
        "layers": [
            {
                "name": name,
                "rollout": name not in looked.layers,
                "left": sides.index(layer.left),
                "right": sides.index(layer.right),
                "heads": len(layer.weights),
                "weights": packed(layer.weights),
                **numbers(layer),
            }
            for name, layer in every.items()
        ],
    }


def opened_first(looked: Looked) -> str:
    """The layer that aligns best; a model without cross-attention opens with its last layer."""
    try:
        return looked.aligning
    except RegardError:
        return list(looked.layers)[-1]


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
