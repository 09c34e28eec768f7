"""`regard export`: a run written in another tool's format, with a check of the result."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard import storage
from regard.errors import RegardError
from regard.interop.ctranslate2 import Quantization
from regard.nn import Pruning, Reducer
from regard.tasks import load
from regard.tasks.encoder.config import TextRecipe
from regard.tasks.encoder.run_folder import write_labels
from regard.tasks.image_classification.config import ImageClassificationRecipe
from regard.tasks.run_folder import RunFolder
from regard.tasks.spec import ExportOptions
from regard.tasks.translation.vocabulary import JOINT
from regard.tokenization import Tokenizer

Format = Literal["ctranslate2", "onnx", "huggingface"]

MAX_CHECK_INPUTS = 200
"""Sentences, texts or images that an export is checked on."""


@dataclass(frozen=True)
class ExportCheck:
    """A run and its export compared on the same inputs."""

    engine: str
    """Name and version of the software that ran the export."""
    sentences: int
    same: dict[str, int]
    """Number of inputs with the same output, by kind of output: greedy, beam 5."""
    of: str
    """The quantity that `difference` is measured in: scores, logits."""
    difference: float
    """Largest absolute difference."""


@dataclass(frozen=True)
class Exported:
    """The result of `regard export`."""

    folder: Path
    format: Format
    check: ExportCheck


def export(
    run: str | Path,
    to: Format,
    folder: str | Path,
    quantization: Quantization | None = None,
    source: str | Path | None = None,
) -> Exported:
    """Export a run into a folder and check it; an error leaves no folder behind.

    Args:
        run: The run folder.
        to: The format.
        folder: The folder to make; it must be empty if it exists.
        quantization: For CTranslate2: the type of the weights.
        source: Inputs to check with: a text file or a folder of images. Default: the run's own data.

    Raises:
        RegardError: The folder is not empty, or the model cannot be exported to this format.
    """
    folder = Path(folder)
    if quantization and to != "ctranslate2":
        raise RegardError(f"--quantize is for ctranslate2; {to} stores the weights as they are")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RegardError(f"{folder} exists and is not empty; name another folder")
    loaded = load(run)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with storage.atomic_path(folder) as part:
        part.mkdir()
        check = loaded.spec.export(loaded, ExportOptions(to, part, quantization, source))
    return Exported(folder, to, check)


def refuse_token_reduction(run: Path, reduction: Reducer | None) -> None:
    """Refuse a model that prunes or merges tokens: no export format has it, and the output would differ."""
    if reduction is not None:
        how = "prunes" if isinstance(reduction, Pruning) else "merges"
        raise RegardError(f"{run} {how} tokens, which no other tool does; export the run it was trained from")


def write_onnx_metadata(
    folder: Path,
    recipe: TextRecipe | ImageClassificationRecipe,
    labels: Sequence[str],
    tokenizer: Tokenizer | None = None,
) -> None:
    """Recipe, labels and vocabulary beside an ONNX graph."""
    storage.write_text(folder / "recipe.toml", recipe.to_toml())
    write_labels(RunFolder(folder), labels)
    if tokenizer is not None:
        tokenizer.save(folder / JOINT)
