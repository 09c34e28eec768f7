"""Run folders that hold a BERT or a GPT: tokenizer, labels, and what `model.start` takes from them."""

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
from regard.tasks.run_folder import MAX_CONFIG_BYTES, RunFolder
from regard.tasks.translation.vocabulary import JOINT
from regard.tokenization import BertTokenizer, CharacterTokenizer, GptTaskTokenizer, GptTokenizer, Tokenizer
from regard.training.devices import choose_device

LABELS = "labels.json"


@dataclass(frozen=True)
class TextRunFolder:
    """A run folder that holds a BERT or a GPT, with its recipe."""

    folder: RunFolder
    recipe: TextRecipe

    @property
    def config(self) -> BertConfig | GptConfig:
        """The model section; an n-gram model is refused."""
        if isinstance(self.recipe.model, NgramConfig):
            raise RegardError(f"{self.folder.path} holds {self.recipe.model}, which is not a neural network")
        return self.recipe.model

    @property
    def labels(self) -> list[str]:
        return read_labels(self.folder.path) if text_spec_of(self.recipe).has_labels else []

    def tokenizer(self) -> Any:
        """The tokenizer; its type depends on model and task."""
        return load_tokenizer(self.folder.path, self.config, self.recipe.task)

    def model(self) -> nn.Module:
        """The model with its weights; the shapes are checked before memory is allocated."""
        tokenizer, labels = self.tokenizer(), self.labels

        def build() -> nn.Module:
            head = text_spec_of(self.recipe).head
            sizes = tokenizer.size, tokenizer.padding, len(labels)
            pooling = embed_config(self.recipe).pooling
            return build_text_model(self.config, head, *sizes, reduction_config(self.recipe), pooling)

        with torch.device("meta"):
            self.folder.check_weights(build())
        model = build()
        self.folder.load_weights(model)
        return model.to(choose_device()).eval()


def text_spec_of(recipe: TextRecipe) -> TextTaskSpec[Any, Any]:
    """The task of a recipe for a BERT or a GPT."""
    spec = spec_of(recipe)
    assert isinstance(spec, TextTaskSpec)
    return spec


def reduction_config(recipe: TextRecipe) -> TokenReductionConfig | None:
    """The `reduce` section; some tasks have none."""
    return getattr(recipe, "reduce", None)


def embed_config(recipe: TextRecipe) -> EmbedConfig:
    """How `embed` pools vectors; only the recipe of an imported encoder has this section."""
    return getattr(recipe, "embed", EmbedConfig())


def open_text_run(path: Path) -> TextRunFolder:
    """Open a finished run of any task whose model is a BERT or a GPT."""
    folder = RunFolder.open(path)
    recipe = folder.read_recipe()
    if not isinstance(recipe, TextRecipe):
        raise spec_of(recipe).mismatch(path, "not a BERT or a GPT")
    return TextRunFolder(folder, recipe)


def write_text_run(
    out: Path,
    recipe: TextRecipe,
    model: nn.Module,
    tokenizer: Tokenizer,
    labels: Sequence[str],
    card: str,
) -> RunFolder:
    """Write a model that was not trained here as a finished run.

    Args:
        out: The run folder to make.
        recipe: A recipe with the model's sizes.
        model: The model.
        tokenizer: Its tokenizer.
        labels: Classes or tags in the order of the model's outputs; empty for a task without labels.
        card: The README.md.
    """
    folder = RunFolder.create(out)
    with folder.locked():
        tokenizer.save(folder.path / JOINT)
        write_labels(folder, labels)
        folder.write_weights(model)
        folder.write("README.md", card)
        folder.write_recipe(recipe)
        folder.write_config(recipe)
    return folder


def write_labels(folder: RunFolder, labels: Sequence[str]) -> None:
    """Write classes or tags in the order of the model's outputs; without labels no file is written."""
    if labels:
        folder.write(LABELS, json.dumps(list(labels), ensure_ascii=False, indent=2) + "\n")


def read_labels(folder: Path) -> list[str]:
    path = RunFolder(folder).file(LABELS)
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise ValueError(f"it has {path.stat().st_size:,} bytes")
        labels = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels) or not labels:
        raise RegardError(f"{path} is damaged: it must be a list of labels")
    return labels


def model_sizes(model: BertConfig | GptConfig) -> dict[str, int]:
    return {name: getattr(model, name) for name in ("layers", "d_model", "heads", "d_ff")}


def inherit_sizes(model: BertConfig | GptConfig) -> BertConfig | GptConfig:
    """The model section with the sizes of the run in `model.start`; sizes that contradict it are refused."""
    if model.start is None:
        return model
    start = open_text_run(Path(model.start)).config
    if not isinstance(start, type(model)):
        raise RecipeError(f"model.kind: {model.start} holds a {start.kind}, not a {model.kind}")
    defaults, sizes = model_sizes(type(model)()), model_sizes(start)
    for name, value in model_sizes(model).items():
        if value not in (defaults[name], sizes[name]):
            raise RecipeError(f"model.{name}: {model.start} has {sizes[name]}, not {value}; leave it out")
    return replace(start, start=model.start, dropout=model.dropout, attention_dropout=model.attention_dropout)


def load_start_weights(path: Path, model: nn.Module) -> str:
    """Copy the weights of a run into a model where name and shape agree; returns a log line."""
    run = open_text_run(path)
    parameters = dict(model.named_parameters())
    loaded = {
        name: weight
        for name, weight in run.folder.weights().items()
        if name in parameters and parameters[name].shape == weight.shape
    }
    if not any(".blocks." in name for name in loaded):
        raise RegardError(f"model.start: the weights of {path} do not fit this model")
    with torch.no_grad():
        for name, weight in loaded.items():
            parameters[name].copy_(weight)
    fresh = sorted({name.rsplit(".", 1)[0] for name in parameters if name not in loaded})
    return f"weights: from {path}" + (f"; fresh: {', '.join(fresh)}" if fresh else "")


def make_tokenizer(
    model: BertConfig | GptConfig,
    settings: WordPieceConfig | GptTokenizerConfig,
    texts: Callable[[], Iterable[str]],
    folder: RunFolder,
    task: str,
) -> Any:
    """The tokenizer of a training run: the folder's own on resuming, that of `model.start`, or a new one.

    Args:
        model: The model section.
        settings: The tokenizer section.
        texts: Gives the training texts.
        folder: The run folder.
        task: The name of the task.
    """
    if (folder.path / JOINT).exists():
        return load_tokenizer(folder.path, model, task)
    if model.start:
        return load_tokenizer(Path(model.start), model, task)
    if isinstance(settings, GptTokenizerConfig):
        return train_gpt_tokenizer(settings, texts())
    kind = "gpt" if isinstance(model, GptConfig) else "bert"
    tokenizer = tokenization.train(
        kind, texts(), size=settings.vocab_size, min_count=settings.min_count, lowercase=settings.lowercase
    )
    return GptTaskTokenizer(tokenizer) if isinstance(model, GptConfig) else tokenizer


def train_gpt_tokenizer(settings: GptTokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """The tokenizer of a language model, trained on its text."""
    return tokenization.train(
        "gpt" if settings.kind == "bpe" else settings.kind, texts, size=settings.vocab_size
    )


def load_tokenizer(folder: Path, model: BertConfig | GptConfig, task: str) -> Any:
    """The tokenizer in a run folder; that of a GPT that labels has three more special tokens."""
    tokenizer = tokenization.load(RunFolder(folder).file(JOINT))
    if isinstance(model, BertConfig):
        if not isinstance(tokenizer, BertTokenizer):
            raise RegardError(f"{folder / JOINT} is a {tokenizer.kind} vocabulary; a BERT needs WordPiece")
        return tokenizer
    if not isinstance(tokenizer, GptTokenizer | CharacterTokenizer):
        raise RegardError(f"{folder / JOINT} is a {tokenizer.kind} vocabulary, which a GPT does not have")
    return tokenizer if task == "language-modeling" else GptTaskTokenizer(tokenizer)
