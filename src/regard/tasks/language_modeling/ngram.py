"""Counts of tokens as a run: the baseline that models of language start from, with the same report."""

import json
import time
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from regard.config.models import NgramConfig
from regard.data.windows import Windows
from regard.errors import RegardError
from regard.nn.ngram import Ngram, count_ngrams, ngram_from_tensors
from regard.tasks.encoder.run_folder import learned
from regard.tasks.encoder.training import TaskRun, Work, read_splits
from regard.tasks.language_modeling.config import LanguageModelingRecipe
from regard.tasks.metrics_log import NullListener, ProgressListener
from regard.tasks.model_card import text_card
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.vocabulary import JOINT
from regard.tokenization import Tokenizer


class CountedWork(Work, Protocol):
    """The work of a language recipe."""

    def windows(self, tokenizer: Tokenizer, split: str) -> Windows: ...


def count(
    recipe: LanguageModelingRecipe,
    work: CountedWork,
    out: Path,
    listener: ProgressListener | None,
    *,
    resume: bool,
) -> TaskRun:
    """Count into the folder `out`, and measure on the test file or on the validation text."""
    if resume:
        raise RegardError("counting is done in one go; there is nothing to resume")
    if recipe.train.device not in ("auto", "cpu"):
        raise RegardError(f"train.device: tokens are counted on the CPU, not on {recipe.train.device}")
    listener, begun = listener or NullListener(), time.perf_counter()
    folder = RunFolder.create(out)
    with folder.alone():
        read_splits(work, recipe.data)
        for sentence in work.tell():
            listener.log(sentence)
        folder.write_recipe(recipe)
        tokenizer = learned(recipe.tokenizer, work.texts())
        tokenizer.save(folder.path / JOINT)
        model = counts_of(recipe, work, tokenizer)
        listener.log(f"runs: {runs_in(model):,} of up to {model.order} tokens")
        folder.write_weights(model)
        split = "test" if "test" in work.splits else "valid"
        measured = work.measure(model, tokenizer, split)
        on = "test" if split == "test" else "validation"
        minutes = (time.perf_counter() - begun) / 60
        result = TaskRun(folder.path, recipe.task, on, measured, minutes, 0, runs_in(model))
        folder.write("metrics.jsonl", json.dumps({"kind": "valid", "step": 0, **measured.scores}) + "\n")
        folder.write("README.md", card(recipe, result))
        folder.write_config(recipe)
    return result


def counts_of(recipe: LanguageModelingRecipe, work: CountedWork, tokenizer: Tokenizer) -> Ngram:
    assert isinstance(recipe.model, NgramConfig)
    windows = work.windows(tokenizer, "train")
    return count_ngrams(windows.rows, tokenizer.size, recipe.model.order, recipe.model.discount)


def runs_in(model: Ngram) -> int:
    return sum(len(runs.keys) for runs in model.tables)


def open_counts(folder: RunFolder, tokenizer: Tokenizer) -> Ngram:
    """The counts of a finished run."""
    try:
        return ngram_from_tensors(folder.weights(), tokenizer.size)
    except ValueError as problem:
        raise RegardError(f"{folder.file('model.safetensors')} does not hold counts: {problem}") from None


def card(recipe: LanguageModelingRecipe, result: TaskRun) -> str:
    facts: dict[str, Any] = {
        "runs": result.parameters,
        "measured on": f"{result.measured.examples:,} {result.on} tokens",
    }
    data = recipe.data
    files = [name for name in (data.train, data.valid, data.test) if name]
    return text_card(recipe.task, files, str(recipe.model), facts, result.measured.scores, [])


def measured_counts(model: nn.Module, windows: Windows) -> tuple[float, int]:
    """Nats of all tokens but the first of each row, and how many they are."""
    assert isinstance(model, Ngram)
    costs = [model.token_losses(row) for row in windows.rows if len(row)]
    return float(sum(each.sum() for each in costs)), sum(map(len, costs))
