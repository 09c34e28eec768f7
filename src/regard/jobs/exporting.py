"""A run as another tool wants it, checked."""

from dataclasses import dataclass
from pathlib import Path

from regard import disk
from regard.errors import RegardError
from regard.jobs import load_translator
from regard.jobs.checks import Check, compared, sentences_of
from regard.jobs.export_card import export_card
from regard.jobs.formats import Format, Quantization, write


@dataclass(frozen=True)
class Exported:
    """What `regard export` made."""

    folder: Path
    format: Format
    check: Check


def export(
    run: str | Path,
    to: Format,
    folder: str | Path,
    quantization: Quantization | None = None,
    source: str | Path | None = None,
) -> Exported:
    """Write a run into a folder, whole or not at all; check it on sentences of a file, or on the run's own."""
    folder = Path(folder)
    if quantization and to != "ctranslate2":
        raise RegardError(f"--quantize is for ctranslate2; {to} takes the weights as they are")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RegardError(f"{folder} is there already, and not empty; name another folder")
    loaded = load_translator(run)
    sentences = sentences_of(loaded, source)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with disk.aside(folder) as part:
        part.mkdir()
        write(loaded, to, part, quantization)
        found = compared(loaded, to, part, sentences)
        disk.write_text(part / "README.md", export_card(loaded.recipe, to, found))
    return Exported(folder, to, found)
