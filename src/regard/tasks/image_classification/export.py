"""Export of a Vision Transformer, checked by comparing predictions of the run and the export."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from regard import storage
from regard.data.image_batches import as_numbers
from regard.data.images import Images
from regard.errors import RegardError
from regard.interop import by_transformers, onnx, vit
from regard.tasks.export_card import reader_card
from regard.tasks.export_check import MOST, Check
from regard.tasks.exporting import refuse_fewer_tokens, write_beside
from regard.tasks.formats import Format
from regard.tasks.image_classification.model import ImageClassifier
from regard.tasks.spec import ExportOptions


def export(loaded: ImageClassifier, options: ExportOptions) -> Check:
    """Write the model, and compare predictions of the run and the export."""
    recipe, to, folder = loaded.recipe, options.format, options.folder
    refuse_fewer_tokens(loaded.folder.path, loaded.model.vit.reduction)
    images = images_of(loaded, options.source)
    if to == "onnx":
        onnx.write_reader(loaded.model, folder)
        write_beside(folder, recipe, loaded.labels)
    elif to == "huggingface":
        vit.write(folder, loaded.model, recipe.model, loaded.labels)
    else:
        raise RegardError(
            f"{loaded.folder.path} holds {recipe.model}; it can be exported to onnx or huggingface, not {to}"
        )
    check = compare(loaded, to, folder, images)
    storage.write_text(folder / "README.md", reader_card(recipe.task, recipe.model, to, check))
    return check


def images_of(loaded: ImageClassifier, source: str | Path | None) -> Tensor:
    """Images for the check, from 0 to 1: those of a folder, or the run's own."""
    images: Images = loaded.images(None if source is None else Path(source))
    return as_numbers(images.load(range(min(MOST, len(images.labels)))))


@torch.inference_mode()
def compare(loaded: ImageClassifier, to: Format, folder: Path, pixels: Tensor) -> Check:
    """Compare labels and scores of run and export."""
    theirs: Callable[[Tensor], Tensor]
    if to == "onnx":
        theirs = reader = onnx.OnnxReader(folder)
        name = reader.name
    elif by_transformers.is_installed():
        theirs = opened = by_transformers.OpenedVision(folder)
        name = opened.name
    else:
        name, theirs = by_transformers.MISSING, vit.read(folder).model.eval()
    scores = loaded.model(pixels.to(next(loaded.model.parameters()).device)).cpu()
    exported_scores = theirs(pixels)
    same = int((scores.argmax(-1) == exported_scores.argmax(-1)).sum())
    difference = float((scores - exported_scores).abs().max())
    return Check(name, len(pixels), {"labels": same}, "scores", difference)
