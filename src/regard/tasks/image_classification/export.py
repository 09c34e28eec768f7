"""Export of a Vision Transformer, checked by comparing predictions of the run and the export."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from regard import storage
from regard.data.image_batches import pixels_to_float
from regard.data.images import Images
from regard.errors import RegardError
from regard.interop import huggingface_vit, onnx, transformers_models
from regard.tasks.export import (
    MAX_CHECK_INPUTS,
    ExportCheck,
    Format,
    refuse_token_reduction,
    write_onnx_metadata,
)
from regard.tasks.export_card import encoder_export_card
from regard.tasks.image_classification.model import ImageClassifier
from regard.tasks.spec import ExportOptions


def export(loaded: ImageClassifier, options: ExportOptions) -> ExportCheck:
    """Write the model, and compare predictions of the run and the export."""
    recipe, to, folder = loaded.recipe, options.format, options.folder
    refuse_token_reduction(loaded.folder.path, loaded.model.vit.reduction)
    images = images_of(loaded, options.source)
    if to == "onnx":
        onnx.write_encoder(loaded.model, folder)
        write_onnx_metadata(folder, recipe, loaded.labels)
    elif to == "huggingface":
        huggingface_vit.write(folder, loaded.model, recipe.model, loaded.labels)
    else:
        raise RegardError(
            f"{loaded.folder.path} holds {recipe.model}; it can be exported to onnx or huggingface, not {to}"
        )
    check = compare(loaded, to, folder, images)
    storage.write_text(folder / "README.md", encoder_export_card(recipe, to, check))
    return check


def images_of(loaded: ImageClassifier, source: str | Path | None) -> Tensor:
    """Images for the check, from 0 to 1: those of a folder, or the run's own."""
    images: Images = loaded.images(None if source is None else Path(source))
    return pixels_to_float(images.load(range(min(MAX_CHECK_INPUTS, len(images.labels)))))


@torch.inference_mode()
def compare(loaded: ImageClassifier, to: Format, folder: Path, pixels: Tensor) -> ExportCheck:
    """Compare labels and scores of run and export."""
    theirs: Callable[[Tensor], Tensor]
    if to == "onnx":
        theirs = reader = onnx.OnnxEncoder(folder)
        name = reader.name
    elif transformers_models.is_installed():
        theirs = opened = transformers_models.TransformersVit(folder)
        name = opened.name
    else:
        name, theirs = transformers_models.FALLBACK_NAME, huggingface_vit.read(folder).model.eval()
    scores = loaded.model(pixels.to(next(loaded.model.parameters()).device)).cpu()
    exported_scores = theirs(pixels)
    same = int((scores.argmax(-1) == exported_scores.argmax(-1)).sum())
    difference = float((scores - exported_scores).abs().max())
    return ExportCheck(name, len(pixels), {"labels": same}, "scores", difference)
