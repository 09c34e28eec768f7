"""A run on which token reduction is measured: one that labels images or texts, or tags words."""

from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from regard.config import ClassificationRecipe, TaggingRecipe
from regard.data.examples import Example, all_batches
from regard.data.image_batches import as_numbers
from regard.data.images import Part
from regard.engine import run
from regard.errors import RegardError
from regard.nn import Merging, Pruning, Reducer, TokenCounts
from regard.nn.bert import Bert
from regard.nn.vit import Vit
from regard.tasks import load
from regard.tasks.classification.task import Classification
from regard.tasks.encoder.model import LoadedEncoder, work_of
from regard.tasks.encoder.reduction import token_counts
from regard.tasks.encoder.training import file_of
from regard.tasks.image_classification.model import LoadedVision
from regard.tasks.image_classification.task import measure

TIMED = 4096
"""Tokens in a turn, about."""


class Subject(Protocol):
    """What is measured of a run, whether it reads texts or images."""

    body: Any
    """The `Bert` or `Vit` whose tokens are reduced."""
    config: Any
    score_name: str
    examples: int
    length: float
    """Mean number of tokens of an example."""
    timed: int
    """Examples in a turn."""
    first_only: bool
    """Whether only the first token is read at the end."""
    neighbours_only: bool
    """Whether a token is merged with its neighbours only."""

    def score(self, by: Reducer) -> float: ...
    def run(self, by: Reducer) -> object:
        """The forward pass that is timed."""

    def token_counts(self, by: Reducer) -> TokenCounts:
        """Tokens of each example, block by block."""

    def tokens(self) -> Tensor:
        """Embedded tokens of real examples, (tokens, d_model)."""


def subject_of(run: Path, data: Path | None = None, most: int = 0) -> Subject:
    """The run, measured on at most `most` examples; 0 means all.

    Raises:
        RegardError: the run has no tokens to reduce, or no examples.
    """
    loaded = load(run)
    if isinstance(loaded, LoadedVision):
        return Images(loaded, data, most)
    if isinstance(loaded, LoadedEncoder) and isinstance(loaded.recipe, ClassificationRecipe | TaggingRecipe):
        return Texts(loaded, data, most)
    raise RegardError(
        f"{run} holds a {loaded.recipe.task} model; tokens become fewer where images or texts are "
        "labelled or words tagged"
    )


def spread(count: int, most: int) -> slice:
    """About `most` of `count` examples, evenly spread."""
    return slice(None, None, max(1, -(-count // most)) if most else 1)


def set_reduction(body: Bert | Vit, by: Reducer) -> None:
    """Reduce by this; nothing to merge is the plain forward pass, the reference of all others."""
    chosen = cast(Merging | Pruning, by)
    body.reduction = None if isinstance(chosen, Merging) and not any(chosen.amounts) else chosen


class Images:
    """A Vision Transformer on its test images, or those of a folder."""

    score_name, neighbours_only = "accuracy", False

    def __init__(self, loaded: LoadedVision, data: Path | None, most: int) -> None:
        images = loaded.images(data)
        self.loaded, self.config = loaded, loaded.recipe.model
        self.images = Part(images, np.arange(len(images.labels))[spread(len(images.labels), most)])
        self.body: Vit = loaded.model.vit
        self.examples, self.length = len(self.images.labels), float(self.config.tokens)
        self.timed = min(self.examples, max(1, TIMED // self.config.tokens))
        self.first_only = self.config.read == "class"
        self.pixels = as_numbers(self.images.load(range(self.timed)))

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


class Texts:
    """A BERT on its test or validation texts, or those of a file."""

    neighbours_only = True

    def __init__(self, loaded: LoadedEncoder, data: Path | None, most: int) -> None:
        recipe, body = loaded.recipe, loaded.body
        assert isinstance(recipe, ClassificationRecipe | TaggingRecipe)
        self.config = recipe.model
        if not isinstance(body, Bert):
            raise RegardError(
                f"{loaded.folder.path} holds {recipe.model}; tokens become fewer in a BERT or a ViT"
            )
        file = data or file_of(recipe.data, "test") or file_of(recipe.data, "valid")
        if file is None:
            raise RegardError(
                f"{loaded.folder.path} has no test or validation file of its own: give one with --data"
            )
        self.loaded, self.body = loaded, body
        self.work = work_of(recipe)
        self.work.labels = loaded.labels
        self.work.open("test", file)
        self.work.splits["test"] = self.work.splits["test"][spread(len(self.work.splits["test"]), most)]
        examples = self.test_examples()
        lengths = [len(each.ids) for each in examples]
        self.examples, self.length = len(examples), float(np.mean(lengths))
        some = examples[:: max(1, sum(lengths) // TIMED)]
        self.batches = list(all_batches(some, TIMED // 2))
        self.timed = len(some)
        self.first_only = isinstance(recipe, ClassificationRecipe)
        self.score_name = "accuracy" if self.first_only else "f1"

    def test_examples(self) -> list[Example]:
        if isinstance(self.work, Classification):
            return self.work.examples(self.loaded.tokenizer, "test")[0]
        return [each.example for each in cast(Any, self.work).stretches(self.loaded.tokenizer, "test")]

    def score(self, by: Reducer) -> float:
        set_reduction(self.body, by)
        measured = self.work.measure(self.loaded.model, self.loaded.tokenizer, "test")
        return measured.scores[self.score_name]

    @torch.no_grad()
    def run(self, by: Reducer) -> object:
        set_reduction(self.body, by)
        return [run(self.loaded.model, batch.ids, batch.segments) for batch in self.batches]

    def token_counts(self, by: Reducer) -> TokenCounts:
        self.body.reduction = cast(Merging | Pruning, by)
        return token_counts(self.body, self.batches, first_only=self.first_only)

    @torch.no_grad()
    def tokens(self) -> Tensor:
        batch = self.batches[-1]
        return self.body.embed(batch.ids.values, batch.segments, batch.ids.positions)
