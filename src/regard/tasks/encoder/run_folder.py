"""Run folders that hold a BERT or a GPT: vocabulary, labels, and what another training takes from it."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import tokenization
from regard.config.models import BertConfig, EmbedConfig, GptConfig, NgramConfig, TokenReductionConfig
from regard.errors import RecipeError, RegardError
from regard.nn.build import build_text_model
from regard.tasks.encoder.config import TextRecipe, WordPieceConfig
from regard.tasks.encoder.spec import TextTaskSpec
from regard.tasks.language_modeling.config import GptTokenizerConfig
from regard.tasks.registry import spec_of
from regard.tasks.run_folder import LARGEST_CONFIG, RunFolder
from regard.tasks.translation.vocabulary import JOINT
from regard.tokenization import BertTokenizer, GptTokenizer, LetterTokenizer, MarkedTokenizer, Tokenizer
from regard.training.devices import choose_device

LABELS = "labels.json"


@dataclass(frozen=True)
class TextFolder:
    """A run folder that holds a BERT or a GPT, and its recipe."""

    folder: RunFolder
    recipe: TextRecipe

    @property
    def config(self) -> BertConfig | GptConfig:
        """The model section; counts of tokens are no network."""
        if isinstance(self.recipe.model, NgramConfig):
            raise RegardError(f"{self.folder.path} holds {self.recipe.model}, which is no network")
        return self.recipe.model

    @property
    def labels(self) -> list[str]:
        return read_labels(self.folder.path) if text_spec_of(self.recipe).has_labels else []

    def tokenizer(self) -> Any:
        return load_tokenizer(self.folder.path, self.config, self.recipe.task)

    def model(self) -> nn.Module:
        """The model with its weights; nothing is believed, and no memory taken, before the shapes agree."""
        tokenizer, labels = self.tokenizer(), self.labels

        def fresh() -> nn.Module:
            head = text_spec_of(self.recipe).head
            sizes = tokenizer.size, tokenizer.padding, len(labels)
            pooling = embed_settings(self.recipe).pooling
            return build_text_model(self.config, head, *sizes, reduction_of(self.recipe), pooling)

        with torch.device("meta"):
            self.folder.check_weights(fresh())
        model = fresh()
        self.folder.load_weights(model)
        return model.to(choose_device()).eval()


def text_spec_of(recipe: TextRecipe) -> TextTaskSpec[Any, Any]:
    """The task of a recipe for a BERT or a GPT."""
    spec = spec_of(recipe)
    assert isinstance(spec, TextTaskSpec)
    return spec


def reduction_of(recipe: TextRecipe) -> TokenReductionConfig | None:
    """What a recipe says of fewer tokens; some tasks have no such section."""
    return getattr(recipe, "reduce", None)


def embed_settings(recipe: TextRecipe) -> EmbedConfig:
    """How `embed` makes vectors; only an imported encoder has settings of its own."""
    return getattr(recipe, "embed", EmbedConfig())


def open_texts(path: Path) -> TextFolder:
    """A finished run whose model is a BERT or a GPT, whatever its task."""
    folder = RunFolder.open(path)
    recipe = folder.read_recipe()
    if not isinstance(recipe, TextRecipe):
        raise RegardError(f"{path} holds a model for {recipe.task}, not a BERT or a GPT")
    return TextFolder(folder, recipe)


def write_texts(
    out: Path,
    recipe: TextRecipe,
    model: nn.Module,
    tokenizer: Tokenizer,
    labels: Sequence[str],
    card: str,
) -> RunFolder:
    """A model that was not trained here, as a finished run."""
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


def shape_of(model: BertConfig | GptConfig) -> dict[str, int]:
    return {name: getattr(model, name) for name in ("layers", "d_model", "heads", "d_ff")}


def started(model: BertConfig | GptConfig) -> BertConfig | GptConfig:
    """The model section with the sizes of the run to start from."""
    if model.start is None:
        return model
    theirs = open_texts(Path(model.start)).config
    if not isinstance(theirs, type(model)):
        raise RecipeError(f"model.kind: {model.start} holds a {theirs.kind}, not a {model.kind}")
    usual = shape_of(type(model)())
    for name, value in shape_of(model).items():
        other = shape_of(theirs)[name]
        if value not in (usual[name], other):
            raise RecipeError(f"model.{name}: {model.start} has {other}, not {value}; leave it out")
    return replace(theirs, start=model.start, dropout=model.dropout, attention_dropout=model.attention_dropout)


def start_from(path: Path, model: nn.Module) -> str:
    """Fill a model with what a run has of it; say what begins fresh."""
    opened = open_texts(path)
    parameters = dict(model.named_parameters())
    saved = opened.folder.weights()
    used = {
        name: each
        for name, each in saved.items()
        if name in parameters and parameters[name].shape == each.shape
    }
    if not any(".blocks." in name for name in used):
        raise RegardError(f"model.start: the weights of {path} do not fit this model")
    with torch.no_grad():
        for name, each in used.items():
            parameters[name].copy_(each)
    fresh = sorted({name.rsplit(".", 1)[0] for name in parameters if name not in used})
    return f"weights: from {path}" + (f"; fresh: {', '.join(fresh)}" if fresh else "")


def make_tokenizer(
    model: BertConfig | GptConfig,
    settings: WordPieceConfig | GptTokenizerConfig,
    texts: Callable[[], Iterable[str]],
    folder: RunFolder,
    task: str,
) -> Any:
    """The folder's own on resuming, that of the run to start from, or a new one from the training texts."""
    if (folder.path / JOINT).exists():
        return load_tokenizer(folder.path, model, task)
    if model.start:
        return load_tokenizer(Path(model.start), model, task)
    if isinstance(settings, GptTokenizerConfig):
        return learned(settings, texts())
    kind = "gpt" if isinstance(model, GptConfig) else "bert"
    found = tokenization.train(
        kind, texts(), size=settings.vocab_size, min_count=settings.min_count, lower=settings.lower
    )
    return MarkedTokenizer(found) if isinstance(model, GptConfig) else found


def learned(settings: GptTokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """The tokens of a language model, from its text."""
    return tokenization.train(
        "gpt" if settings.kind == "bpe" else settings.kind, texts, size=settings.vocab_size
    )


def load_tokenizer(folder: Path, model: BertConfig | GptConfig, task: str) -> Any:
    """The vocabulary as the task has it: a GPT that labels knows three symbols more than one that writes."""
    found = tokenization.load(RunFolder(folder).file(JOINT))
    if isinstance(model, BertConfig):
        if not isinstance(found, BertTokenizer):
            raise RegardError(f"{folder / JOINT} is a {found.kind} vocabulary, not BERT's")
        return found
    if not isinstance(found, GptTokenizer | LetterTokenizer):
        raise RegardError(f"{folder / JOINT} is a {found.kind} vocabulary, not one that a GPT has")
    return found if task == "language-modeling" else MarkedTokenizer(found)
