"""A run as another tool wants it, checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard import storage
from regard.errors import RegardError
from regard.nn import Pruning, Reducer
from regard.tasks import load
from regard.tasks.encoder.config import TextRecipe
from regard.tasks.encoder.run_folder import write_labels
from regard.tasks.export_check import Check
from regard.tasks.formats import Format, Quantization
from regard.tasks.image_classification.config import ImageClassificationRecipe
from regard.tasks.run_folder import RunFolder
from regard.tasks.spec import ExportOptions
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
    with storage.atomic_path(folder) as part:
        part.mkdir()
        check = loaded.spec.export(loaded, ExportOptions(to, part, quantization, source))
    return Exported(folder, to, check)


def refuse_fewer_tokens(run: Path, reduction: Reducer | None) -> None:
    """No other tool prunes or merges as this model does, and without it the model would say something else."""
    if reduction is not None:
        how = "prunes" if isinstance(reduction, Pruning) else "merges"
        raise RegardError(f"{run} {how} tokens, which no other tool does; export the run it was trained from")


def write_beside(
    folder: Path,
    recipe: TextRecipe | ImageClassificationRecipe,
    labels: Sequence[str],
    tokenizer: Tokenizer | None = None,
) -> None:
    """What one needs beside an ONNX graph: the recipe, the labels, the vocabulary."""
    storage.write_text(folder / "recipe.toml", recipe.to_toml())
    write_labels(RunFolder(folder), labels)
    if tokenizer is not None:
        tokenizer.save(folder / JOINT)
