"""A run as another tool wants it, checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard import storage
from regard.config import BertModel, GptModel, TextRecipe, VisionRecipe, to_toml
from regard.errors import RegardError
from regard.interop import bert, gpt2, onnx, vit
from regard.nn import Pruning, Reducer
from regard.nn.gpt import GptWriter
from regard.tasks import load
from regard.tasks.checks import Check, compared, sentences_of
from regard.tasks.encoder.checks import read_the_same, texts_of
from regard.tasks.encoder.model import LoadedEncoder
from regard.tasks.encoder.run_folder import HEADS, write_labels
from regard.tasks.export_card import export_card, reader_card, writer_card
from regard.tasks.formats import Format, Quantization, write
from regard.tasks.image_classification.checks import images_of, saw_the_same
from regard.tasks.image_classification.model import LoadedVision
from regard.tasks.language_modeling.checks import prompts_of, wrote_the_same
from regard.tasks.language_modeling.model import LoadedWriter
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.model import LoadedTranslator
from regard.tasks.translation.vocabulary import JOINT
from regard.tokenization import Tokenizer


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
    with storage.aside(folder) as part:
        part.mkdir()
        match loaded:
            case LoadedTranslator():
                found = export_translator(loaded, to, part, quantization, source)
            case LoadedWriter():
                found = export_writer(loaded, to, part, source)
            case LoadedEncoder():
                found = export_reader(loaded, to, part, source)
            case LoadedVision():
                found = export_vision(loaded, to, part, source)
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
    storage.write_text(folder / "README.md", export_card(loaded.recipe, to, found))
    return found


def export_writer(loaded: LoadedWriter, to: Format, folder: Path, source: str | Path | None) -> Check:
    network = loaded.recipe.model
    if to != "huggingface" or not isinstance(loaded.model, GptWriter) or not isinstance(network, GptModel):
        raise RegardError(f"{loaded.folder.path} holds {network}; a GPT can be exported to huggingface")
    prompts = prompts_of(loaded, source)
    gpt2.write(folder, loaded.model, network, loaded.tokenizer)
    found = wrote_the_same(loaded, folder, prompts)
    storage.write_text(folder / "README.md", writer_card(network, found))
    return found


def export_reader(loaded: LoadedEncoder, to: Format, folder: Path, source: str | Path | None) -> Check:
    """A BERT with any head, or a GPT that labels."""
    recipe, body = loaded.recipe, loaded.body
    refuse_fewer_tokens(loaded.folder.path, getattr(body, "reduction", None))
    texts = texts_of(loaded, source)
    if to == "onnx":
        onnx.write_reader(loaded.model, folder)
        write_beside(folder, recipe, loaded.labels, loaded.tokenizer)
    elif to == "huggingface" and isinstance(recipe.model, BertModel):
        embed = recipe.embed if recipe.task == "encoder" else None
        head = HEADS[recipe.task]
        bert.write(folder, loaded.model, recipe.model, head, loaded.labels, loaded.tokenizer, embed)
    else:
        allowed = "onnx or huggingface" if isinstance(recipe.model, BertModel) else "onnx"
        raise RegardError(
            f"{loaded.folder.path} holds {recipe.model}; it can be exported to {allowed}, not {to}"
        )
    found = read_the_same(loaded, to, folder, texts)
    storage.write_text(folder / "README.md", reader_card(recipe.task, recipe.model, to, found))
    return found


def export_vision(loaded: LoadedVision, to: Format, folder: Path, source: str | Path | None) -> Check:
    recipe = loaded.recipe
    refuse_fewer_tokens(loaded.folder.path, loaded.model.vit.reduction)
    images = images_of(loaded, source)
    if to == "onnx":
        onnx.write_reader(loaded.model, folder)
        write_beside(folder, recipe, loaded.labels)
    elif to == "huggingface":
        vit.write(folder, loaded.model, recipe.model, loaded.labels)
    else:
        raise RegardError(
            f"{loaded.folder.path} holds {recipe.model}; it can be exported to onnx or huggingface, not {to}"
        )
    found = saw_the_same(loaded, to, folder, images)
    storage.write_text(folder / "README.md", reader_card(recipe.task, recipe.model, to, found))
    return found


def refuse_fewer_tokens(run: Path, reduction: Reducer | None) -> None:
    """No other tool prunes or merges as this model does, and without it the model would say something else."""
    if reduction is not None:
        how = "prunes" if isinstance(reduction, Pruning) else "merges"
        raise RegardError(f"{run} {how} tokens, which no other tool does; export the run it was trained from")


def write_beside(
    folder: Path, recipe: TextRecipe | VisionRecipe, labels: Sequence[str], tokenizer: Tokenizer | None = None
) -> None:
    """What one needs beside an ONNX graph: the recipe, the labels, the vocabulary."""
    storage.write_text(folder / "recipe.toml", to_toml(recipe))
    write_labels(RunFolder(folder), labels)
    if tokenizer is not None:
        tokenizer.save(folder / JOINT)
