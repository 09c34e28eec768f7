"""Run folders that hold a BERT: its vocabulary, its labels, and what another training takes from it."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from regard import text
from regard.config import (
    BertModel,
    KernelRecipe,
    PaintRecipe,
    PieceSettings,
    Reduction,
    TextRecipe,
    TranslationRecipe,
    VisionRecipe,
)
from regard.errors import RecipeError, RegardError
from regard.jobs.folder import LARGEST_CONFIG, RunFolder
from regard.jobs.training import device
from regard.jobs.vocabulary import JOINT
from regard.models.build import Head, build_bert
from regard.text import BertTokenizer

LABELS = "labels.json"

HEADS: dict[str, Head] = {
    "encoder": "none",
    "pretraining": "pretraining",
    "classification": "classes",
    "tagging": "tags",
    "answering": "span",
}
"""The head of each task."""


@dataclass(frozen=True)
class BertFolder:
    """A run folder that holds a BERT, and its recipe."""

    folder: RunFolder
    recipe: TextRecipe

    @property
    def labels(self) -> list[str]:
        return read_labels(self.folder.path) if self.recipe.task in ("classification", "tagging") else []

    def tokenizer(self) -> BertTokenizer:
        return load_tokenizer(self.folder.path)

    def model(self) -> nn.Module:
        """The model with its weights; nothing is believed, and no memory taken, before the shapes agree."""
        tokenizer, labels = self.tokenizer(), self.labels

        def fresh() -> nn.Module:
            head = HEADS[self.recipe.task]
            sizes = tokenizer.size, tokenizer.padding, len(labels)
            return build_bert(self.recipe.model, head, *sizes, reduction_of(self.recipe))

        with torch.device("meta"):
            self.folder.check_weights(fresh())
        model = fresh()
        self.folder.write_weights_into(model)
        return model.to(device()).eval()


def reduction_of(recipe: TextRecipe) -> Reduction | None:
    """What a recipe says of fewer tokens; some tasks have no such section."""
    return getattr(recipe, "reduce", None)


def open_bert(path: Path) -> BertFolder:
    """A finished run whose model is a BERT, whatever its task."""
    folder = RunFolder.open(path)
    recipe = folder.read_recipe()
    if isinstance(recipe, KernelRecipe | TranslationRecipe | VisionRecipe | PaintRecipe):
        raise RegardError(f"{path} holds a {recipe.task} model, not a BERT")
    return BertFolder(folder, recipe)


def write_bert(
    out: Path, recipe: TextRecipe, model: nn.Module, tokenizer: BertTokenizer, labels: Sequence[str], card: str
) -> RunFolder:
    """A BERT that was not trained here, as a finished run."""
    folder = RunFolder.create(out)
    with folder.alone():
        tokenizer.save(folder.path / JOINT)
        write_labels(folder, labels)
        folder.write_weights(model)
        folder.write("README.md", card)
        folder.write_recipe(recipe)
        folder.write_config(recipe)
    return folder


def write_labels(folder: RunFolder, labels: Sequence[str]) -> None:
    """Classes or tags in the order of their scores; a task without them has no such file."""
    if labels:
        folder.write(LABELS, json.dumps(list(labels), ensure_ascii=False, indent=2) + "\n")


def read_labels(folder: Path) -> list[str]:
    path = RunFolder(folder).file(LABELS)
    try:
        if path.stat().st_size > LARGEST_CONFIG:
            raise ValueError(f"it has {path.stat().st_size:,} bytes")
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found) or not found:
        raise RegardError(f"{path} is damaged: it must be a list of labels")
    return found


def shape_of(model: BertModel) -> dict[str, int]:
    return {name: getattr(model, name) for name in ("layers", "d_model", "heads", "d_ff")}


def started(model: BertModel) -> BertModel:
    """The model section with the sizes of the run to start from."""
    if model.start is None:
        return model
    theirs = open_bert(Path(model.start)).recipe.model
    usual = shape_of(BertModel())
    for name, value in shape_of(model).items():
        other = shape_of(theirs)[name]
        if value not in (usual[name], other):
            raise RecipeError(f"model.{name}: {model.start} has {other}, not {value}; leave it out")
    return replace(theirs, start=model.start, dropout=model.dropout, attention_dropout=model.attention_dropout)


def start_from(path: Path, model: nn.Module) -> str:
    """Fill a model with what a run has of it; say what begins fresh."""
    opened = open_bert(path)
    parameters = dict(model.named_parameters())
    saved = opened.folder.weights()
    used = {
        name: each
        for name, each in saved.items()
        if name in parameters and parameters[name].shape == each.shape
    }
    if not any(name.startswith("bert.blocks.") for name in used):
        raise RegardError(f"model.start: the weights of {path} do not fit this model")
    with torch.no_grad():
        for name, each in used.items():
            parameters[name].copy_(each)
    fresh = sorted({name.rsplit(".", 1)[0] for name in parameters if name not in used})
    return f"weights: from {path}" + (f"; fresh: {', '.join(fresh)}" if fresh else "")


def make_tokenizer(
    model: BertModel, settings: PieceSettings, texts: Callable[[], Iterable[str]], folder: RunFolder
) -> BertTokenizer:
    """The folder's own on resuming, that of the run to start from, or a new one from the training texts."""
    if (folder.path / JOINT).exists():
        return load_tokenizer(folder.path)
    if model.start:
        return load_tokenizer(Path(model.start))
    found = text.train("bert", texts(), size=settings.size, min_count=settings.min_count, lower=settings.lower)
    assert isinstance(found, BertTokenizer)
    return found


def load_tokenizer(folder: Path) -> BertTokenizer:
    found = text.load(RunFolder(folder).file(JOINT))
    if not isinstance(found, BertTokenizer):
        raise RegardError(f"{folder / JOINT} is a {found.kind} vocabulary, not BERT's")
    return found
