"""A Vision Transformer exported, and whether it says what the run says: both get the same images."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from regard import storage
from regard.data.image_batches import pixels_to_float
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
    """Write the model, and give both the same images."""
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
    found = saw_the_same(loaded, to, folder, images)
    storage.write_text(folder / "README.md", reader_card(recipe.task, recipe.model, to, found))
    return found


def images_of(loaded: ImageClassifier, source: str | Path | None) -> Tensor:
    """Images to check with, from 0 to 1: those of a folder, or the run's own."""
    images: Images = loaded.images(None if source is None else Path(source))
    return pixels_to_float(images.load(range(min(MOST, len(images.labels)))))


@torch.inference_mode()
def saw_the_same(loaded: ImageClassifier, to: Format, folder: Path, pixels: Tensor) -> Check:
    """The model and the export side by side."""
    theirs: Callable[[Tensor], Tensor]
    if to == "onnx":
        theirs = reader = onnx.OnnxReader(folder)
        name = reader.name
    elif by_transformers.is_installed():
        theirs = opened = by_transformers.OpenedVision(folder)
        name = opened.name
    else:
        name, theirs = by_transformers.MISSING, vit.read(folder).model.eval()
    ours = loaded.model(pixels.to(next(loaded.model.parameters()).device)).cpu()
    others = theirs(pixels)
    same = int((ours.argmax(-1) == others.argmax(-1)).sum())
    return Check(name, len(pixels), {"labels": same}, "scores", float((ours - others).abs().max()))
