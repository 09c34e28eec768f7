"""A trained Vision Transformer: classification, evaluation, attention maps."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.data.image_batches import pixels_to_float
from regard.data.images import (
    FolderImages,
    Images,
    check_labels,
    open_images,
    open_test_images,
    read_image,
    read_image_header,
)
from regard.errors import RegardError
from regard.nn import Merging, Recorder
from regard.tasks.classification.task import LabelPrediction, label_prediction
from regard.tasks.image_classification.config import ImageClassificationRecipe
from regard.tasks.image_classification.task import load_vit, measure, probabilities
from regard.tasks.loaded_model import LoadedModel
from regard.tasks.results import TaskScores
from regard.tasks.run_folder import RunFolder
from regard.viz.attention_maps import AttentionMaps, Layer, TokenSequence
from regard.viz.image_attention import ImageAttention


class ImageClassifier(LoadedModel):
    """A Vision Transformer that classifies images."""

    does = "classifies images"
    recipe: ImageClassificationRecipe

    def __init__(self, folder: RunFolder, recipe: ImageClassificationRecipe) -> None:
        self.folder, self.recipe = folder, recipe
        self.model, self.labels = load_vit(folder, recipe)

    def classify(self, images: Sequence[str | Path]) -> list[LabelPrediction]:
        """The label of each image file, with the probabilities of all labels."""
        model, paths = self.recipe.model, [Path(image) for image in images]
        if not paths:
            return []
        pictures = [read_image_header(path) for path in paths]
        batch = FolderImages(Path(), pictures, [""] * len(paths), model.height, model.width, model.channels)
        return [label_prediction(self.labels, row) for row in probabilities(self.model, batch)]

    def evaluate(self, folder: Path | None = None) -> TaskScores:
        """Scores on a folder of labelled images, or on the test or validation images of the recipe."""
        return measure(self.model, self.images(folder), self.labels)

    def images(self, folder: Path | None = None) -> Images:
        """Images for evaluation."""
        if folder is not None:
            images = open_test_images(folder, self.recipe.model)
        else:
            if self.recipe.data.path is None:
                raise RegardError(
                    f"{self.folder.path} names no images in its recipe; give a folder with --data"
                )
            folder = Path(self.recipe.data.path)
            splits = open_images(folder, self.recipe.model)
            if "test" not in splits and "valid" not in splits:
                raise RegardError(
                    f"{self.folder.path} has no test or validation images; give a folder with --data"
                )
            images = splits.get("test") or splits["valid"]
        model = self.recipe.model
        if (images.height, images.width, images.channels) != (model.height, model.width, model.channels):
            raise RegardError(
                f"{folder}: images are {images.height} x {images.width} with {images.channels} channels; this "
                f"model needs {model.height} x {model.width} with {model.channels}"
            )
        check_labels(images, self.labels, folder)
        return images

    def merge(self, amounts: Sequence[float]) -> None:
        """Enable token merging.

        Args:
            amounts: Tokens to merge, per layer or once for all layers; below 1 a share of them.
        """
        self.model.vit.reduction = Merging(tuple(amounts), first_stays=self.recipe.model.pooling == "class")

    def seen(self, image: str | Path, amounts: Sequence[float] = ()) -> ImageAttention:
        """An image with its attention maps, and with the groups of patches that token merging forms."""
        model, pixels = self.recipe.model, self.pixels(image)
        distribution = self.model(pixels).detach().float().softmax(-1)[0].cpu().numpy()
        prediction = label_prediction(self.labels, distribution)
        array = pixels[0].mul(255).round().byte().cpu().numpy().transpose(1, 2, 0)
        return ImageAttention(
            f"{Path(image).name}: {prediction.label}, {prediction.probability:.0%}",
            array.repeat(3, 2) if model.channels == 1 else array,
            model.rows,
            model.columns,
            int(model.pooling == "class"),
            self.attention(image),
            self.groups(pixels, amounts) if amounts else (),
        )

    @torch.no_grad()
    def groups(self, pixels: Tensor, amounts: Sequence[float]) -> list[np.ndarray]:
        """The token that each patch belongs to after each layer but the last of a model with a class token."""
        first, layers = int(self.recipe.model.pooling == "class"), self.recipe.model.layers
        merging = Merging(tuple(amounts), first_stays=bool(first))
        groups = []
        for number in range(layers - first):
            merged = tuple(merging.amount(layer) for layer in range(number + 1))
            tokens = self.model.vit.reduced(pixels, Merging((*merged, 0.0), first_stays=bool(first)))
            index = torch.arange(self.recipe.model.tokens) if tokens.index is None else tokens.index[0]
            groups.append(index.cpu().numpy()[first:])
        return groups

    def pixels(self, image: str | Path) -> Tensor:
        """An image file as model input: (1, channels, height, width)."""
        model = self.recipe.model
        read = read_image(Path(image), model.height, model.width, model.channels)
        return pixels_to_float(read[None]).to(next(self.model.parameters()).device)

    @torch.no_grad()
    def attention(self, image: str | Path) -> AttentionMaps:
        """Attention weights of every layer and head for an image; tokens are named by row and column."""
        model, record = self.recipe.model, Recorder()
        self.model(self.pixels(image), record)
        patches = [f"{row},{column}" for row in range(model.rows) for column in range(model.columns)]
        side = TokenSequence.of_words(
            "patches", Path(image).name, [*["[CLASS]"] * (model.pooling == "class"), *patches]
        )
        layers = {name: Layer(side, side, weights[0].float().cpu().numpy()) for name, weights in record.items()}
        return AttentionMaps(side, side, layers)
