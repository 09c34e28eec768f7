"""A run as another tool wants it, checked."""

from dataclasses import dataclass
from pathlib import Path

from regard import disk
from regard.config import GptModel
from regard.errors import RegardError
from regard.exchange import gpt2
from regard.jobs import load
from regard.jobs.checks import Check, compared, sentences_of
from regard.jobs.export_card import export_card, writer_card
from regard.jobs.formats import Format, Quantization, write
from regard.jobs.loaded import LoadedTranslator
from regard.jobs.loaded_language import LoadedWriter
from regard.jobs.writer_checks import prompts_of, wrote_the_same
from regard.models.gpt import GptWriter


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
    loaded = load(run)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with disk.aside(folder) as part:
        part.mkdir()
        match loaded:
            case LoadedTranslator():
                found = export_translator(loaded, to, part, quantization, source)
            case LoadedWriter():
                found = export_writer(loaded, to, part, source)
            case _:
                raise RegardError(f"{run} holds a {loaded.recipe.task} model, which cannot be exported")
    return Exported(folder, to, found)


def export_translator(
    loaded: LoadedTranslator,
    to: Format,
    folder: Path,
    quantization: Quantization | None,
    source: str | Path | None,
) -> Check:
    sentences = sentences_of(loaded, source)
    write(loaded, to, folder, quantization)
    found = compared(loaded, to, folder, sentences)
    disk.write_text(folder / "README.md", export_card(loaded.recipe, to, found))
    return found


def export_writer(loaded: LoadedWriter, to: Format, folder: Path, source: str | Path | None) -> Check:
    network = loaded.recipe.model
    if to != "huggingface" or not isinstance(loaded.model, GptWriter) or not isinstance(network, GptModel):
        raise RegardError(f"{loaded.folder.path} holds {network}; a GPT can be exported to huggingface")
    prompts = prompts_of(loaded, source)
    gpt2.write(folder, loaded.model, network, loaded.tokenizer)
    found = wrote_the_same(loaded, folder, prompts)
    disk.write_text(folder / "README.md", writer_card(network, found))
    return found
