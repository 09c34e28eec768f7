"""Whether an exported model of images says what the run says: both get the same images."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from regard.data.image_batches import as_numbers
from regard.data.images import Images
from regard.interop import by_transformers, onnx, vit
from regard.tasks.checks import MOST, Check
from regard.tasks.formats import Format
from regard.tasks.image_classification.model import LoadedVision


def images_of(loaded: LoadedVision, source: str | Path | None) -> Tensor:
    """Images to check with, from 0 to 1: those of a folder, or the run's own."""
    images: Images = loaded.images(None if source is None else Path(source))
    return as_numbers(images.load(range(min(MOST, len(images.labels)))))


@torch.inference_mode()
def saw_the_same(loaded: LoadedVision, to: Format, folder: Path, pixels: Tensor) -> Check:
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
