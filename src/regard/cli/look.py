"""`regard look`: attention weights as a page, a picture, JSON, or a heat map in the terminal."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard import storage
from regard.cli.arguments import Run
from regard.cli.lines import UnknownWordLog
from regard.errors import RegardError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.tasks.image_classification.model import ImageClassifier
    from regard.viz.attention_maps import AttentionMaps, Layer
    from regard.viz.image_attention import ImageAttention

KINDS = {".html": "page", ".svg": "picture", ".png": "picture", ".json": "payload"}


def look(
    run: Run,
    text: Annotated[
        str,
        typer.Argument(help="Input text, or an image file for a ViT."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Output file: page (.html), picture (.png, .svg) or data (.json).",
            show_default="the terminal",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Translation or continuation to use instead of the model's own; for BERT, a second text."
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(help="Layer name, e.g. decoder.0.cross or encoder.rollout.", show_default="the alignment"),
    ] = None,
    head: Annotated[int | None, typer.Option(min=0, help="A single head, counted from 0.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Join subwords into words.")] = False,
    merge: Annotated[
        str | None, typer.Option(help="For an image: show merged patches, as in `classify --merge`.")
    ] = None,
) -> None:
    """Show attention weights: a page with every layer and head, a picture, or a heat map in the terminal.

    Examples:

    regard look runs/picturebook "Ein alter Mann liest im Park eine Zeitung." -o park.html

    regard look runs/picturebook "Der Hund schläft." --layer encoder.0.self -o heads.svg

    regard look runs/vit digit.png -o digit.html --merge 0.2
    """
    from regard.cli.terminal import plain_warnings
    from regard.tasks import load
    from regard.tasks.image_classification.model import ImageClassifier
    from regard.tasks.loaded_model import TextModel

    if output is not None and output.suffix not in KINDS:
        raise RegardError(f"{output}: attention is written as .html, .json, .png or .svg")
    loaded = load(run)
    if loaded.spec.reads == "image":
        if target is not None or words:
            raise RegardError(f"--target and --words need a text model; {run} is an image model")
        show_image(ImageClassifier.of(loaded), text, output, layer, head, merge)
        return
    if merge is not None:
        raise RegardError("--merge needs an image model; this run is a text model")
    if not text.strip():
        raise RegardError("the text is empty")
    with plain_warnings():
        maps = loaded.spec.attention(loaded, text, target)
        if isinstance(loaded, TextModel):
            UnknownWordLog(loaded.tokenizer).check(maps.input.text)
        show_text(maps, output, layer, head, words)


def show_text(
    maps: "AttentionMaps", output: Path | None, layer: str | None, head: int | None, words: bool
) -> None:
    """Write the file and print its path; without a file, print a heat map."""
    from regard.viz.figure import save_as
    from regard.viz.html_page import attention_page
    from regard.viz.terminal import printable

    view = View.of(maps, layer, head, words)
    if output is not None and output.suffix == ".html":
        write(output, attention_page(maps, layer, head, words=words))
    elif output is not None and output.suffix == ".json":
        write(output, json.dumps(payload(view).as_json(), separators=(",", ":")) + "\n")
    elif output is not None:
        save_as(picture(view), output)
    if maps.output is not maps.input:  # an encoder writes no text
        print(printable(maps.output.text))
    print(f"{KINDS[output.suffix]}: {output}" if output is not None else heat_map(view))


@dataclass(frozen=True)
class View:
    """The layer to show, and one of its heads or all."""

    maps: "AttentionMaps"
    name: str
    layer: "Layer"
    is_chosen: bool
    """Whether the layer was chosen with --layer."""
    head: int | None

    @classmethod
    def of(cls, maps: "AttentionMaps", layer: str | None, head: int | None, words: bool) -> "View":
        from regard.viz.analysis import all_layers, check_head, select_layer

        name = select_layer(maps, layer)
        chosen = all_layers(maps)[name]
        check_head(name, chosen, head)
        if words:
            maps, chosen = maps.in_words(), chosen.in_words()
        return cls(maps, name, chosen, layer is not None, head)


def picture(view: View) -> "Figure":
    """One head, all heads of a chosen layer, or the alignment."""
    from regard.viz.heatmaps import draw_heads, draw_matrix

    if view.head is not None:
        return draw_matrix(view.layer.weights[view.head], view.layer, f"{view.name}, head {view.head}")
    if view.is_chosen:
        return draw_heads(view.layer, view.name)
    return draw_matrix(view.layer.weights.mean(0), view.layer, f"{view.name}, mean of the heads")


def payload(view: View) -> "AttentionMaps":
    """All layers, or the chosen layer or head."""
    from regard.viz.attention_maps import AttentionMaps, Layer

    if not view.is_chosen and view.head is None:
        return view.maps
    weights = view.layer.weights if view.head is None else view.layer.weights[view.head : view.head + 1]
    layer = Layer(view.layer.queries, view.layer.keys, weights)
    return AttentionMaps(view.maps.input, view.maps.output, {view.name: layer})


def heat_map(view: View) -> str:
    """The mean of the heads, or one head, as a heat map of block characters."""
    from rich.console import Console

    from regard.viz.terminal import text_heatmap

    layer, head, heads = view.layer, view.head, len(view.layer.weights)
    weights = layer.weights.mean(0) if head is None else layer.weights[head]
    which = "" if heads == 1 else f", mean of {heads} heads" if head is None else f", head {head}"
    caption = f"{view.name}{which}\n{layer.queries.name}, from top to bottom, attends to {layer.keys.name}"
    return f"\n{caption}\n\n{text_heatmap(weights, layer.queries.labels, layer.keys.labels, Console().width)}"


def show_image(
    loaded: "ImageClassifier",
    image: str,
    output: Path | None,
    layer: str | None,
    head: int | None,
    merge: str | None,
) -> None:
    """As `show_text` for an image: attention of the class token, and merged patches."""
    from regard.tasks.encoder.reduction import parse_merge_amounts
    from regard.viz.figure import save_as
    from regard.viz.image_attention import draw_image_attention, draw_merged_patches, image_attention_page
    from regard.viz.terminal import printable

    if not image.strip():
        raise RegardError(f"{loaded.folder.path} is an image model; give an image file")
    seen = loaded.seen(image, () if merge is None else parse_merge_amounts(merge))
    print(printable(seen.title))
    if output is None:
        print(image_heat_map(seen, layer, head))
        return
    if output.suffix == ".html":
        write(output, image_attention_page(seen, layer, head))
    elif output.suffix == ".json":
        write(output, json.dumps(seen.maps.as_json(), separators=(",", ":")) + "\n")
    else:
        save_as(
            draw_merged_patches(seen) if merge is not None else draw_image_attention(seen, layer, head), output
        )
    print(f"{'page' if output.suffix == '.html' else 'written'}: {output}")


def image_heat_map(seen: "ImageAttention", name: str | None, head: int | None) -> str:
    """Attention of the class token, or the mean over all patches, as a heat map of patches."""
    from rich.console import Console

    from regard.viz.analysis import all_layers, check_head, select_layer
    from regard.viz.terminal import text_heatmap

    name = select_layer(seen.maps, name)
    layer = all_layers(seen.maps)[name]
    check_head(name, layer, head)
    rows, columns = ([str(number) for number in range(count)] for count in (seen.rows, seen.columns))
    which = f", head {head}" if head is not None else ", mean of the heads" if len(layer.weights) > 1 else ""
    query = "the class token" if seen.prefix_tokens else "the mean of all patches"
    shades = text_heatmap(seen.patch_weights(layer, head), rows, columns, Console().width)
    return f"\n{name}{which}: attention of {query}\n\n{shades}"


def write(output: Path, text: str) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    storage.write_text(output, text)
