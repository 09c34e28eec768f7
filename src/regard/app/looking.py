"""`regard look`: a translation and the picture of its alignment."""

from pathlib import Path

from regard.errors import RegardError
from regard.jobs import load_translator
from regard.look.alignment import draw_alignment
from regard.look.figure import save_as


def run(folder: Path, text: str, output: Path, target: str | None) -> None:
    """Write the alignment picture and print the translation."""
    if output.suffix not in (".png", ".svg"):
        raise RegardError(f"{output}: pictures are written as .png or .svg")
    if not text.strip():
        raise RegardError("there is no text to translate")
    loaded = load_translator(folder)
    translation = loaded.translate([text])[0] if target is None else target
    looked = loaded.attention(text, translation)
    save_as(draw_alignment(looked.alignment(), looked.source, looked.target, "Who looked where"), output)
    print(translation)
    print(f"picture: {output}")
