"""Attention maps as one self-contained HTML page: no network access, opens from disk."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from regard.viz.analysis import all_layers, check_head, distance, entropy, layer_title, select_layer
from regard.viz.attention_maps import AttentionMaps, Layer

VIEWER = files("regard.viz") / "viewer"
SCRIPTS = (
    *("payload", "state", "colours", "controls", "words", "scrolled", "heatmap", "lines", "grid", "statistics"),
    "main",
)
"""The viewer's scripts, each after those that it uses."""

BASE_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'"
"""Content security policy of every page, extended by the hashes of its own script and style."""

MAX_TITLE_LENGTH = 60
"""Characters of the input text in the title of a page."""


def attention_page(
    maps: AttentionMaps, layer: str | None = None, head: int | None = None, *, words: bool = False
) -> str:
    """The attention maps as an HTML page: text, heat map, head view, all heads, statistics.

    Args:
        maps: the attention weights of all layers.
        layer: the layer to open; the alignment layer by default.
        head: the head to open; the mean of all heads by default.
        words: whether to open with subwords joined into words.
    """
    layers, selected = all_layers(maps), select_layer(maps, layer)
    check_head(selected, layers[selected], head)
    opened = {"layer": list(layers).index(selected), "head": -1 if head is None else head, "words": words}
    data = {"opened": opened, **viewer_data(maps)}
    return viewer_page(
        "page.html", page_title(maps), "words", styles=("theme.css", "style.css"), scripts=SCRIPTS, data=data
    )


def page_title(maps: AttentionMaps) -> str:
    """The title of a page: the input text, shortened."""
    text = " ".join(maps.input.text.split())
    if len(text) > MAX_TITLE_LENGTH:
        text = text[: MAX_TITLE_LENGTH - 1].rstrip() + "…"
    return f"Attention: “{text}”" if text else "Attention"


def viewer_page(
    sections: str,
    title: str,
    first: str,
    *,
    styles: Sequence[str],
    scripts: Sequence[str],
    data: dict[str, Any],
) -> str:
    """A page whose sections are drawn by scripts from the data.

    Args:
        sections: the viewer file with the sections.
        title: plain text.
        first: id of the main section, the target of the skip link.
        styles: viewer files, joined into one style sheet.
        scripts: viewer files without extension, joined into one script.
        data: the JSON that the scripts read.
    """
    style = "".join(map(read_viewer_file, styles))
    script = '"use strict";\n' + "\n".join(read_viewer_file(f"{name}.js") for name in scripts)
    return fill_template(
        "viewer.html",
        policy=f"{BASE_POLICY}; script-src {csp_hash(script)}; style-src {csp_hash(style)}",
        title=html.escape(title),
        first=first,
        style=style,
        sections=read_viewer_file(sections),
        data=script_safe_json(data),
        script=script,
    )


def fill_template(template: str, **values: str) -> str:
    """Replaces all `{{name}}` of a template in one pass: placeholders within the values stay as they are."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], read_viewer_file(template))


def read_viewer_file(name: str) -> str:
    return (VIEWER / name).read_text("utf-8")


def csp_hash(content: str) -> str:
    """Content security policy source that allows exactly this inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def script_safe_json(content: Any) -> str:
    """JSON for a script element, with every `<` escaped so that no text can end the element."""
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def viewer_data(maps: AttentionMaps) -> dict[str, Any]:
    """The data of the viewer; weights are packed, since 500 tokens have millions of them."""
    sequences = maps.token_sequences()
    return {
        "sides": [tokens.as_json() for tokens in sequences],
        "layers": [
            {
                "name": name,
                "title": layer_title(name),
                "rollout": name not in maps.layers,
                "left": sequences.index(layer.queries),
                "right": sequences.index(layer.keys),
                "heads": len(layer.weights),
                "weights": pack_weights(layer.weights),
                **head_statistics(layer),
            }
            for name, layer in all_layers(maps).items()
        ],
    }


def pack_weights(weights: np.ndarray) -> str:
    """Weights from 0 to 1 as base64 of little-endian 16-bit integers."""
    return base64.b64encode(np.round(weights.clip(0, 1) * 65535).astype("<u2").tobytes()).decode()


def head_statistics(layer: Layer) -> dict[str, Any]:
    """Entropy and distance of each head, by token and by word."""
    weights_by_unit = {"tokens": layer.weights, "words": layer.in_words().weights}
    return {
        statistic.__name__: {
            unit: np.round(statistic(weights), 4).tolist() for unit, weights in weights_by_unit.items()
        }
        for statistic in (entropy, distance)
    }
