"""A Vision Transformer on which token reduction is measured."""

from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from regard.data.image_batches import pixels_to_float
from regard.data.images import ImageSubset
from regard.engine import run
from regard.nn import Merging, Pruning, Reducer, TokenCounts
from regard.nn.vit import Vit
from regard.tasks.image_classification.model import ImageClassifier
from regard.tasks.image_classification.task import measure
from regard.tasks.reduction_subject import TIMED, set_reduction, spread


class ImageSubject:
    """A Vision Transformer on its test images, or those of a folder."""

    score_name, neighbours_only = "accuracy", False

    def __init__(self, loaded: ImageClassifier, data: Path | None, most: int) -> None:
        images = loaded.images(data)
        self.loaded, self.config = loaded, loaded.recipe.model
        self.images = ImageSubset(images, np.arange(len(images.labels))[spread(len(images.labels), most)])
        self.body: Vit = loaded.model.vit
        self.examples, self.length = len(self.images.labels), float(self.config.tokens)
        self.timed = min(self.examples, max(1, TIMED // self.config.tokens))
        self.first_only = self.config.read == "class"
        self.pixels = pixels_to_float(self.images.load(range(self.timed)))

    def score(self, by: Reducer) -> float:
        self.body.reduction = cast(Merging | Pruning, by)
        return measure(self.loaded.model, self.images, self.loaded.labels).scores["accuracy"]

    @torch.no_grad()
    def run(self, by: Reducer) -> object:
        set_reduction(self.body, by)
        return run(self.loaded.model, self.pixels)

    @torch.no_grad()
    def token_counts(self, by: Reducer) -> TokenCounts:
        return self.body.reduced(self.pixels, by).counts

    @torch.no_grad()
    def tokens(self) -> Tensor:
        return self.body.embed(self.pixels).flatten(0, 1)
