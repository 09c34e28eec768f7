"""A Vision Transformer opened: labels for images, scores, and where it looked."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.data.image_batches import as_numbers
from regard.data.images import Images, InFolders, check_labels, open_images, open_set
from regard.data.pictures import look_at, read_picture
from regard.errors import RegardError
from regard.nn import Merging, Recorder
from regard.tasks.classification.task import LabelPrediction, judged
from regard.tasks.encoder.training import TaskScores
from regard.tasks.image_classification.config import ImageClassificationRecipe
from regard.tasks.image_classification.task import fresh_vit, measure, probabilities
from regard.tasks.loaded_model import LoadedModel
from regard.tasks.run_folder import RunFolder
from regard.viz.attention_maps import AttentionMaps, Layer, TokenSequence
from regard.viz.image_attention import ImageAttention


class ImageClassifier(LoadedModel):
    """A Vision Transformer that labels images."""

    does = "labels images"
    recipe: ImageClassificationRecipe

    def __init__(self, folder: RunFolder, recipe: ImageClassificationRecipe) -> None:
        self.folder, self.recipe = folder, recipe
        self.model, self.labels = fresh_vit(folder, recipe)

    def classify(self, images: Sequence[str | Path]) -> list[LabelPrediction]:
        """The label of each image file, with the share of every label."""
        model, paths = self.recipe.model, [Path(each) for each in images]
        if not paths:
            return []
        pictures = [look_at(path) for path in paths]
        found = InFolders(Path(), pictures, [""] * len(paths), model.height, model.width, model.channels)
        return [judged(self.labels, each) for each in probabilities(self.model, found)]

    def evaluate(self, folder: Path | None = None) -> TaskScores:
        """Scores on a folder of labelled images, or on the test or validation images of the recipe."""
        return measure(self.model, self.images(folder), self.labels)

    def images(self, folder: Path | None = None) -> Images:
        """Images to measure on."""
        if folder is not None:
            images = open_set(folder, self.recipe.model)
        else:
            if self.recipe.data.path is None:
                raise RegardError(f"{self.folder.path} has no images of its own: give a folder with --data")
            folder = Path(self.recipe.data.path)
            splits = open_images(folder, self.recipe.model)
            if "test" not in splits and "valid" not in splits:
                raise RegardError(
                    f"{self.folder.path} has no test or validation images of its own: give a folder with --data"
                )
            images = splits.get("test") or splits["valid"]
        model = self.recipe.model
        if (images.height, images.width, images.channels) != (model.height, model.width, model.channels):
            raise RegardError(
                f"{folder}: images are {images.height} x {images.width} with {images.channels} channels; this "
                f"model reads {model.height} x {model.width} with {model.channels}"
            )
        check_labels(images, self.labels, folder)
        return images

    def merge(self, amounts: Sequence[float]) -> None:
        """Merge tokens from now on: shares below 1, else numbers, for each layer or one for all."""
        self.model.vit.reduction = Merging(tuple(amounts), first_stays=self.recipe.model.read == "class")

    def seen(self, image: str | Path, amounts: Sequence[float] = ()) -> ImageAttention:
        """An image with where the model looked, and with the patches that merging makes one."""
        model, pixels = self.recipe.model, self.pixels(image)
        shares = self.model(pixels).detach().float().softmax(-1)[0].cpu().numpy()
        found = judged(self.labels, shares)
        whole = pixels[0].mul(255).round().byte().cpu().numpy().transpose(1, 2, 0)
        return ImageAttention(
            f"{Path(image).name}: {found.label}, {found.probability:.0%}",
            whole.repeat(3, 2) if model.channels == 1 else whole,
            model.rows,
            model.columns,
            int(model.read == "class"),
            self.attention(image),
            self.groups(pixels, amounts) if amounts else (),
        )

    @torch.no_grad()
    def groups(self, pixels: Tensor, amounts: Sequence[float]) -> list[np.ndarray]:
        """Which token each patch became after each layer; the class token's last block merges nothing."""
        first, layers = int(self.recipe.model.read == "class"), self.recipe.model.layers
        every = Merging(tuple(amounts), first_stays=bool(first))
        found = []
        for number in range(layers - first):
            done = tuple(every.amount(layer) for layer in range(number + 1))
            tokens = self.model.vit.reduced(pixels, Merging((*done, 0.0), first_stays=bool(first)))
            index = torch.arange(self.recipe.model.tokens) if tokens.index is None else tokens.index[0]
            found.append(index.cpu().numpy()[first:])
        return found

    def pixels(self, image: str | Path) -> Tensor:
        """An image file as the model reads it: (1, channels, height, width)."""
        model = self.recipe.model
        read = read_picture(Path(image), model.height, model.width, model.channels)
        return as_numbers(read[None]).to(next(self.model.parameters()).device)

    @torch.no_grad()
    def attention(self, image: str | Path) -> AttentionMaps:
        """Where every layer and head looks while it reads an image; tokens are named by row and column."""
        model, record = self.recipe.model, Recorder()
        self.model(self.pixels(image), record)
        places = [f"{row},{column}" for row in range(model.rows) for column in range(model.columns)]
        side = TokenSequence.of_words(
            "patches", Path(image).name, [*["[CLASS]"] * (model.read == "class"), *places]
        )
        layers = {name: Layer(side, side, weights[0].float().cpu().numpy()) for name, weights in record.items()}
        return AttentionMaps(side, side, layers)
