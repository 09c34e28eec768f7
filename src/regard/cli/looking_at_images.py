"""`regard look` at an image: what the class token looked at, and which patches merging makes one."""

import json
from pathlib import Path

from rich.console import Console

from regard import storage
from regard.errors import RegardError
from regard.tasks.encoder.reduction import amounts_of
from regard.tasks.image_classification.model import ImageClassifier
from regard.viz.choice import check_head, chosen_layer, every_layer
from regard.viz.figure import save_as
from regard.viz.images import ImageAttention, draw_groups, draw_seen, image_page
from regard.viz.terminal import harmless, shaded


def run(
    loaded: ImageClassifier,
    image: str,
    output: Path | None,
    layer: str | None,
    head: int | None,
    merge: str | None,
) -> None:
    """Look, write what was asked for, and print what was written; without a file, a map in the terminal."""
    if not image.strip():
        raise RegardError(f"{loaded.folder.path} reads images: give an image file")
    seen = loaded.seen(image, () if merge is None else amounts_of(merge))
    print(harmless(seen.title))
    if output is None:
        print(in_shades(seen, layer, head))
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    if output.suffix == ".html":
        storage.write_text(output, image_page(seen, layer, head))
    elif output.suffix == ".json":
        storage.write_text(output, json.dumps(seen.looked.as_json(), separators=(",", ":")) + "\n")
    else:
        save_as(draw_groups(seen) if merge is not None else draw_seen(seen, layer, head), output)
    print(f"{'page' if output.suffix == '.html' else 'written'}: {output}")


def in_shades(seen: ImageAttention, name: str | None, head: int | None) -> str:
    """What the class token, or the mean of all patches, looked at, row by row of patches."""
    name = chosen_layer(seen.looked, name)
    layer = every_layer(seen.looked)[name]
    check_head(name, layer, head)
    rows, columns = ([str(number) for number in range(count)] for count in (seen.rows, seen.columns))
    which = f", head {head}" if head is not None else ", mean of the heads" if len(layer.weights) > 1 else ""
    who = "the class token" if seen.before else "the mean of all patches"
    shades = shaded(seen.over(layer, head), rows, columns, Console().width)
    return f"\n{name}{which}: what {who} looked at\n\n{shades}"
