"""A Vision Transformer on which token reduction is measured."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.data.image_batches import pixels_to_float
from regard.data.images import ImageSubset
from regard.engine import run
from regard.nn import TokenCounts
from regard.nn.vit import Vit
from regard.tasks.image_classification.model import ImageClassifier
from regard.tasks.image_classification.task import measure
from regard.tasks.reduction_benchmark import BATCH_TOKENS, Reduction, evenly_spaced, set_reduction


class ImageReductionCase:
    """A Vision Transformer on its test images, or those of a folder."""

    score_name, neighbours_only = "accuracy", False

    def __init__(self, loaded: ImageClassifier, data: Path | None, limit: int) -> None:
        images = loaded.images(data)
        count = len(images.labels)
        self.loaded, self.config = loaded, loaded.recipe.model
        self.images = ImageSubset(images, np.arange(count)[evenly_spaced(count, limit)])
        self.body: Vit = loaded.model.vit
        self.examples, self.length = len(self.images.labels), float(self.config.tokens)
        self.timed = min(self.examples, max(1, BATCH_TOKENS // self.config.tokens))
        self.first_only = self.config.pooling == "class"
        self.pixels = pixels_to_float(self.images.load(range(self.timed)))

    def score(self, reduction: Reduction) -> float:
        self.body.reduction = reduction
        return measure(self.loaded.model, self.images, self.loaded.labels).scores["accuracy"]

    @torch.no_grad()
    def run(self, reduction: Reduction) -> object:
        set_reduction(self.body, reduction)
        return run(self.loaded.model, self.pixels)

    @torch.no_grad()
    def token_counts(self, reduction: Reduction) -> TokenCounts:
        return self.body.reduced(self.pixels, reduction).counts

    @torch.no_grad()
    def tokens(self) -> Tensor:
        return self.body.embed(self.pixels).flatten(0, 1)
