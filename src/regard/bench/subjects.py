"""A run as what reduction is measured on: texts or images, alike."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from regard.config import ClassificationRecipe, TaggingRecipe
from regard.data.examples import Example, all_batches
from regard.data.image_batches import as_numbers
from regard.data.images import Part
from regard.engine import run
from regard.errors import RegardError
from regard.jobs import load
from regard.jobs.classification import Classification
from regard.jobs.loaded_images import LoadedVision
from regard.jobs.loaded_texts import LoadedEncoder, work_of
from regard.jobs.reducing import token_counts
from regard.jobs.tagging import Tagging
from regard.jobs.texts import file_of
from regard.jobs.vision import measure
from regard.nn import Merging, Pruning, Reducer, TokenCounts
from regard.nn.bert import Bert
from regard.nn.vit import Vit

TIMED = 4096
"""Tokens in a turn, about."""


@dataclass(frozen=True)
class Subject:
    """What is asked of a run, whatever it reads."""

    measured: str
    score_name: str
    examples: int
    length: float
    """Tokens of an example, on the mean."""
    timed: int
    """Examples in a turn."""
    body: Bert | Vit
    d_model: int
    d_ff: int
    firsts: bool
    """Whether the first token represents the whole."""
    near: bool
    pruning: Pruning | None
    score: Callable[[Reducer], float]
    work: Callable[[Reducer], object]
    walked: Callable[[Reducer], TokenCounts]
    tokens: Callable[[], Tensor]
    """Embedded tokens of real examples, (tokens, d_model)."""

    @property
    def layers(self) -> int:
        return len(self.body.blocks)

    def merging(self, amounts: tuple[float, ...]) -> Merging:
        return Merging(amounts, self.near, self.firsts)

    def laid(self, length: int, tokens: int) -> Tensor:
        """Embedded tokens of real examples, repeated, in sequences of a length: (batch, length, d_model)."""
        found = self.tokens()
        count = max(1, tokens // length)
        rows = found.repeat(-(-count * length // len(found)), 1)[: count * length].contiguous()
        return rows.view(count, length, -1)


def subject_of(run: Path, data: Path | None = None, most: int = 0) -> Subject:
    """A run that labels images or texts, or tags words; on `most` examples at most, 0 for all."""
    loaded = load(run)
    if isinstance(loaded, LoadedVision):
        return images(loaded, data, most)
    if isinstance(loaded, LoadedEncoder) and isinstance(loaded.recipe, ClassificationRecipe | TaggingRecipe):
        return texts(loaded, data, most)
    raise RegardError(
        f"{run} holds a {loaded.recipe.task} model; tokens become fewer where images or texts are "
        "labelled or words tagged"
    )


def images(loaded: LoadedVision, data: Path | None, most: int) -> Subject:
    found = loaded.images(data)
    found = Part(found, np.arange(len(found.labels))[spread(len(found.labels), most)])
    vit, config = loaded.model.vit, loaded.recipe.model
    count = min(len(found.labels), max(1, TIMED // config.tokens))
    pixels = as_numbers(found.load(range(count)))

    def score(by: Reducer) -> float:
        vit.reduction = cast(Merging | Pruning, by)
        return measure(loaded.model, found, loaded.labels).scores["accuracy"]

    def work(by: Reducer) -> object:
        vit.reduction = none_of(by)
        with torch.no_grad():
            return run(loaded.model, pixels)

    def walked(by: Reducer) -> TokenCounts:
        with torch.no_grad():
            return vit.reduced(pixels, by).counts

    def tokens() -> Tensor:
        with torch.no_grad():
            return vit.embed(pixels).flatten(0, 1)

    return Subject(
        str(config),
        "accuracy",
        len(found.labels),
        config.tokens,
        count,
        vit,
        config.d_model,
        config.d_ff,
        config.read == "class",
        False,
        vit.reduction if isinstance(vit.reduction, Pruning) else None,
        score,
        work,
        walked,
        tokens,
    )


def spread(count: int, most: int) -> slice:
    """So many of all, evenly spread."""
    return slice(None, None, max(1, -(-count // most)) if most else 1)


def none_of(by: Reducer) -> Merging | Pruning | None:
    """Nothing to merge is the plain path, which is what all else is measured against."""
    found = cast(Merging | Pruning, by)
    return None if isinstance(found, Merging) and not any(found.amounts) else found


def texts(loaded: LoadedEncoder, data: Path | None, most: int) -> Subject:
    recipe = loaded.recipe
    assert isinstance(recipe, ClassificationRecipe | TaggingRecipe)
    work = work_of(recipe)
    work.labels = loaded.labels
    file = data or file_of(recipe.data, "test") or file_of(recipe.data, "valid")
    if file is None:
        raise RegardError(
            f"{loaded.folder.path} has no test or validation file of its own: give one with --data"
        )
    work.open("test", file)
    work.splits["test"] = work.splits["test"][spread(len(work.splits["test"]), most)]
    examples = examples_of(work, loaded)
    bert, model = loaded.body, loaded.model
    if not isinstance(bert, Bert):
        raise RegardError(f"{loaded.folder.path} holds {recipe.model}; tokens become fewer in a BERT or a ViT")
    every = max(1, sum(len(each.ids) for each in examples) // TIMED)
    batches = list(all_batches(examples[::every], loaded.tokenizer.padding, TIMED // 2))
    name = "accuracy" if isinstance(recipe, ClassificationRecipe) else "f1"

    def score(by: Reducer) -> float:
        bert.reduction = none_of(by)
        return work.measure(model, loaded.tokenizer, "test").scores[name]

    def asked(by: Reducer) -> object:
        bert.reduction = none_of(by)
        with torch.no_grad():
            return [run(model, batch.ids, batch.segments) for batch in batches]

    def walked(by: Reducer) -> TokenCounts:
        bert.reduction = cast(Merging | Pruning, by)
        return token_counts(bert, batches, first_only=name == "accuracy")

    def tokens() -> Tensor:
        batch = batches[-1]
        with torch.no_grad():
            real = batch.ids != bert.padding
            return bert.embed(batch.ids, batch.segments)[real]

    return Subject(
        f"{recipe.model}",
        name,
        len(examples),
        float(np.mean([len(each.ids) for each in examples])),
        sum(len(batch.ids) for batch in batches),
        bert,
        recipe.model.d_model,
        recipe.model.d_ff,
        name == "accuracy",
        True,
        bert.reduction if isinstance(bert.reduction, Pruning) else None,
        score,
        asked,
        walked,
        tokens,
    )


def examples_of(work: object, loaded: LoadedEncoder) -> list[Example]:
    if isinstance(work, Classification):
        return work.examples(loaded.tokenizer, "test")[0]
    assert isinstance(work, Tagging)
    return [each.example for each in work.stretches(loaded.tokenizer, "test")]
