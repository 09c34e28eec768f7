"""Training of an n-gram model, the baseline of language modeling."""

import json
import time
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from regard.config.models import NgramConfig
from regard.data.language_modeling import TokenWindows
from regard.errors import RegardError
from regard.nn.ngram import Ngram, count_ngrams, ngram_from_tensors
from regard.tasks.encoder.run_folder import train_gpt_tokenizer
from regard.tasks.encoder.training import TextTask, read_splits
from regard.tasks.language_modeling.config import LanguageModelingRecipe
from regard.tasks.metrics_log import NullListener, ProgressListener
from regard.tasks.model_card import text_card
from regard.tasks.results import TaskRun
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.vocabulary import JOINT
from regard.tokenization import Tokenizer


class CountedTextTask(TextTask, Protocol):
    """A language modeling task, which has windows of tokens."""

    def windows(self, tokenizer: Tokenizer, split: str) -> TokenWindows: ...


def count(
    recipe: LanguageModelingRecipe,
    task: CountedTextTask,
    out: Path,
    listener: ProgressListener | None,
    *,
    resume: bool,
) -> TaskRun:
    """Count n-grams into the folder `out`, and evaluate on the test file or the validation text."""
    if resume:
        raise RegardError("an n-gram model is counted in one pass; there is nothing to resume")
    if recipe.train.device not in ("auto", "cpu"):
        raise RegardError(
            f"train.device: n-grams are counted on the CPU, not on {recipe.train.device}; remove it"
        )
    listener, start = listener or NullListener(), time.perf_counter()
    folder = RunFolder.create(out)
    with folder.locked():
        with listener.phase("reading"):
            read_splits(task, recipe.data)
        for line in task.data_summary():
            listener.log(line)
        folder.write_recipe(recipe)
        with listener.phase("vocabulary"):
            tokenizer = train_gpt_tokenizer(recipe.tokenizer, task.vocabulary_texts())
        tokenizer.save(folder.path / JOINT)
        with listener.phase("counting"):
            model = count_split(recipe, task, tokenizer)
        listener.log(f"n-grams: {num_ngrams(model):,} of up to {model.order} tokens")
        folder.write_weights(model)
        split = "test" if "test" in task.splits else "valid"
        with listener.phase("test", "" if split == "test" else "on the validation data"):
            measured = task.measure(model, tokenizer, split)
        on = "test" if split == "test" else "validation"
        minutes = (time.perf_counter() - start) / 60
        result = TaskRun(folder.path, recipe.task, on, measured, minutes, 0, num_ngrams(model))
        folder.write("metrics.jsonl", json.dumps({"kind": "valid", "step": 0, **measured.scores}) + "\n")
        folder.write("README.md", card(recipe, result))
        folder.write_config(recipe)
    return result


def count_split(recipe: LanguageModelingRecipe, task: CountedTextTask, tokenizer: Tokenizer) -> Ngram:
    assert isinstance(recipe.model, NgramConfig)
    windows = task.windows(tokenizer, "train")
    return count_ngrams(windows.rows, tokenizer.size, recipe.model.order, recipe.model.discount)


def num_ngrams(model: Ngram) -> int:
    return sum(len(runs.keys) for runs in model.tables)


def load_ngrams(folder: RunFolder, tokenizer: Tokenizer) -> Ngram:
    """The n-gram model of a finished run."""
    try:
        return ngram_from_tensors(folder.weights(), tokenizer.size)
    except ValueError as problem:
        raise RegardError(
            f"{folder.file('model.safetensors')} does not hold n-gram counts: {problem}"
        ) from None


def card(recipe: LanguageModelingRecipe, result: TaskRun) -> str:
    facts: dict[str, Any] = {
        "n-grams": result.parameters,
        "measured on": f"{result.measured.examples:,} {result.on} tokens",
    }
    data = recipe.data
    files = [name for name in (data.train, data.valid, data.test) if name]
    return text_card(recipe.task, files, str(recipe.model), facts, result.measured.scores, [])


def ngram_loss(model: nn.Module, windows: TokenWindows) -> tuple[float, int]:
    """Total loss in nats, and the number of tokens that it is over."""
    assert isinstance(model, Ngram)
    losses = [model.token_losses(row) for row in windows.rows if len(row)]
    return float(sum(loss.sum() for loss in losses)), sum(map(len, losses))
