"""`regard look`: who looked where in a translation, or in a text: a page, a picture, JSON, or the terminal."""

import json
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console

from regard import storage
from regard.cli import looking_at_images
from regard.cli.terminal import plain_warnings
from regard.errors import RegardError
from regard.tasks import load
from regard.tasks.image_classification.model import ImageClassifier
from regard.viz.choice import check_head, chosen_layer, every_layer
from regard.viz.figure import save_as
from regard.viz.heads import draw_heads, draw_matrix
from regard.viz.page import page
from regard.viz.payload import AttentionMaps, Layer
from regard.viz.terminal import harmless, shaded

KINDS = {".html": "page", ".svg": "picture", ".png": "picture", ".json": "payload"}


@dataclass(frozen=True)
class View:
    """What is to be seen of a payload: a layer, which may have been asked for by name, and perhaps one head."""

    looked: AttentionMaps
    name: str
    layer: Layer
    asked: bool
    head: int | None

    @classmethod
    def of(cls, looked: AttentionMaps, layer: str | None, head: int | None, words: bool) -> "View":
        name = chosen_layer(looked, layer)
        seen = every_layer(looked)[name]
        check_head(name, seen, head)
        if words:
            looked, seen = looked.in_words(), seen.in_words()
        return cls(looked, name, seen, layer is not None, head)


def run(
    folder: Path,
    text: str,
    output: Path | None,
    target: str | None,
    layer: str | None,
    head: int | None,
    words: bool,
    merge: str | None = None,
) -> None:
    """Look, write what was asked for, and print what was written; without a file, the heat map after it."""
    if output is not None and output.suffix not in KINDS:
        raise RegardError(f"{output}: what was looked at is written as .html, .json, .png or .svg")
    loaded = load(folder)
    if loaded.spec.reads == "image":
        if target is not None or words:
            raise RegardError(f"--target and --words are for texts; {folder} reads images")
        looking_at_images.run(ImageClassifier.of(loaded), text, output, layer, head, merge)
        return
    if merge is not None:
        raise RegardError("--merge shows patches of an image, which this model does not read")
    if not text.strip():
        raise RegardError("there is no text to look into")
    with plain_warnings():
        looked = loaded.spec.attention(loaded, text, target)
        view = View.of(looked, layer, head, words)
        if output is not None and output.suffix == ".html":
            write(output, page(looked, layer, head, words=words))
        elif output is not None and output.suffix == ".json":
            write(output, json.dumps(payload(view).as_json(), separators=(",", ":")) + "\n")
        elif output is not None:
            save_as(picture(view), output)
    if looked.written is not looked.read:  # a model that only reads has written nothing
        print(harmless(looked.written.text))
    print(f"{KINDS[output.suffix]}: {output}" if output is not None else in_shades(view))


def picture(view: View) -> Figure:
    """A head, the heads of a layer that was asked for, or else the alignment."""
    if view.head is not None:
        return draw_matrix(view.layer.weights[view.head], view.layer, f"{view.name}, head {view.head}")
    if view.asked:
        return draw_heads(view.layer, view.name)
    return draw_matrix(view.layer.weights.mean(0), view.layer, "Who looked where")


def payload(view: View) -> AttentionMaps:
    """All of it, or the one layer or head that was asked for."""
    if not view.asked and view.head is None:
        return view.looked
    weights = view.layer.weights if view.head is None else view.layer.weights[view.head : view.head + 1]
    only = Layer(view.layer.left, view.layer.right, weights)
    return AttentionMaps(view.looked.read, view.looked.written, {view.name: only})


def write(output: Path, text: str) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    storage.write_text(output, text)


def in_shades(view: View) -> str:
    layer, head, heads = view.layer, view.head, len(view.layer.weights)
    weights = layer.weights.mean(0) if head is None else layer.weights[head]
    which = "" if heads == 1 else f", mean of {heads} heads" if head is None else f", head {head}"
    told = f"{view.name}{which}\n{layer.left.name}, from top to bottom, looks at {layer.right.name}"
    return f"\n{told}\n\n{shaded(weights, layer.left.labels, layer.right.labels, Console().width)}"
