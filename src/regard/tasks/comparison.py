"""Comparison of translation runs: size, training, speed and scores on the same sentences, paired bootstrap."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.corpus import Pair
from regard.errors import RegardError
from regard.metrics import PairedBootstrap, paired_bootstrap
from regard.tasks.metrics_log import NullListener, ProgressListener, TrainingHistory, read_history
from regard.tasks.training import count_parameters
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.model import Evaluation, Translator, pairs_of_files
from regard.tasks.translation.task import is_tokenized

HINT = "give --source and --target to compare them on your own sentences"


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison."""

    folder: Path
    model: str
    parameters: int
    beam: int
    history: TrainingHistory | None
    """None if metrics.jsonl is missing or damaged."""
    evaluation: Evaluation
    paired: PairedBootstrap
    """Significance against the first run."""

    @property
    def name(self) -> str:
        return self.paired.name

    @property
    def sentences_per_second(self) -> float:
        return self.evaluation.quality.sentences / self.evaluation.seconds

    def as_json(self) -> dict[str, Any]:
        quality, history = self.evaluation.quality, self.history
        return {
            "name": self.name,
            "run": str(self.folder),
            "model": self.model,
            "parameters": self.parameters,
            "steps": history and history.steps,
            "minutes": history and history.minutes,
            "tokens_per_second": history and history.tokens_per_second,
            "bleu": quality.bleu,
            "half_width": self.paired.half_width,
            "p_value": self.paired.p_value,
            "chrf": quality.chrf,
            "ter": quality.ter,
            "beam": self.beam,
            "decode_seconds": self.evaluation.seconds,
            "sentences_per_second": self.sentences_per_second,
            "by_length": self.evaluation.by_length,
            "validations": history and history.validations,
        }


@dataclass(frozen=True)
class Comparison:
    """Runs measured on the same sentences; the others are tested against the first."""

    test_set: str
    """Description of the sentences."""
    runs: list[ComparedRun]

    @property
    def sentences(self) -> int:
        return self.runs[0].evaluation.quality.sentences

    @property
    def signature(self) -> str:
        return self.runs[0].evaluation.quality.signature

    def as_json(self) -> dict[str, Any]:
        return {
            "test_set": self.test_set,
            "sentences": self.sentences,
            "signature": self.signature,
            "runs": [run.as_json() for run in self.runs],
        }


def compare(
    runs: Sequence[str | Path],
    *,
    source: str | Path | None = None,
    target: str | Path | None = None,
    beam: int | None = None,
    listener: ProgressListener | None = None,
) -> Comparison:
    """Translate the same sentences with every run.

    The loss is not compared: runs with different vocabularies count different tokens.

    Args:
        runs: Folders of translation runs.
        source: A file of sentences; default: the test split that the runs share.
        target: Their references.
        beam: Beam size; default: that of each run.
        listener: Receives the progress.

    Raises:
        RegardError: Fewer than two runs, the same run twice, or runs whose scores cannot be compared.
    """
    listener = listener or NullListener()
    opened = open_runs([Path(run) for run in runs])
    first = next(iter(opened.values())).recipe
    pairs = pairs_of_files(source, target)
    test_set = split_name(first) if pairs is None else f"{source} and {target}"
    if pairs is None:
        pairs = shared_test_split(opened)
    check_comparable(opened, pairs)
    evaluations = [evaluate_run(name, loaded, pairs, beam, listener) for name, loaded in opened.items()]
    tested = paired_bootstrap(
        list(opened),
        [evaluation.translations for evaluation in evaluations],
        evaluations[0].references,
        tokenized=is_tokenized(first),
    )
    return Comparison(
        test_set,
        [
            compared_run(loaded, beam, evaluation, paired, listener)
            for loaded, evaluation, paired in zip(opened.values(), evaluations, tested, strict=True)
        ],
    )


def evaluate_run(
    name: str, loaded: Translator, pairs: Sequence[Pair], beam: int | None, listener: ProgressListener
) -> Evaluation:
    """Scores of a run, after one sentence as a warm-up."""
    listener.log(f"translating {len(pairs):,} sentences with {name} ...")
    loaded.translate([source for source, _ in pairs[:1]], beam=beam)
    return loaded.evaluate(pairs, beam=beam)


def compared_run(
    loaded: Translator,
    beam: int | None,
    evaluation: Evaluation,
    paired: PairedBootstrap,
    listener: ProgressListener,
) -> ComparedRun:
    """A run with its scores and the history of its training."""
    metrics = loaded.folder.path / "metrics.jsonl"
    history = read_history(metrics)
    if history is None:
        listener.log(f"{metrics} is missing or damaged; no training history of {paired.name}")
    return ComparedRun(
        folder=loaded.folder.path,
        model=str(loaded.recipe.model),
        parameters=count_parameters(loaded.model),
        beam=loaded.options(beam).beam,
        history=history,
        evaluation=evaluation,
        paired=paired,
    )


def open_runs(folders: Sequence[Path]) -> dict[str, Translator]:
    """The loaded runs by name, in order."""
    if len(folders) < 2:
        raise RegardError(f"a comparison needs at least two runs, not {len(folders)}")
    seen: dict[Path, Path] = {}
    for folder in folders:
        path = folder.resolve()
        if path in seen:
            also = "" if seen[path] == folder else f", also as {seen[path]}"
            raise RegardError(f"the run {folder} is given twice{also}; a comparison needs different runs")
        seen[path] = folder
    return {name: Translator.load(folder) for name, folder in zip(short_names(folders), folders, strict=True)}


def short_names(folders: Sequence[Path]) -> list[str]:
    """The name of each folder, or its path if several folders have that name."""
    names = [Path(os.path.abspath(folder)).name for folder in folders]
    count = Counter(names)
    return [name if count[name] == 1 else str(folder) for name, folder in zip(names, folders, strict=True)]


def split_name(recipe: TranslationRecipe) -> str:
    data = recipe.data
    corpus = data.corpus if data.corpus != "files" else data.test_source or data.source
    return f"the test split of {corpus}, {direction(recipe)}"


def direction(recipe: TranslationRecipe) -> str:
    return " to ".join(recipe.data.direction)


def shared_test_split(opened: dict[str, Translator]) -> list[Pair]:
    """The test split of all runs; a data section that several runs have is read once."""
    (first, model), *others = opened.items()
    splits = {model.recipe.data: read_test_split(first, model)}
    for name, loaded in others:
        directions = direction(model.recipe), direction(loaded.recipe)
        if directions[0] != directions[1]:
            raise RegardError(f"{first} translates {directions[0]} and {name} {directions[1]}; {HINT}")
        if loaded.recipe.data not in splits:
            splits[loaded.recipe.data] = read_test_split(name, loaded)
        if splits[loaded.recipe.data] != splits[model.recipe.data]:
            raise RegardError(f"{first} and {name} have different test sentences; {HINT}")
    return splits[model.recipe.data]


def read_test_split(name: str, loaded: Translator) -> list[Pair]:
    try:
        return loaded.test_pairs()
    except RegardError as problem:
        reason = str(problem).removesuffix(".")
        raise RegardError(f"the test split of {name} cannot be read ({reason}); {HINT}") from None


def check_comparable(opened: dict[str, Translator], pairs: Sequence[Pair]) -> None:
    """Refuse runs whose scores would have different references, or different tokenization."""
    (first, model), *others = opened.items()
    references = model.references(pairs)
    for name, loaded in others:
        if is_tokenized(model.recipe) != is_tokenized(loaded.recipe):
            tokenized, plain = (first, name) if is_tokenized(model.recipe) else (name, first)
            raise RegardError(
                f"the text of {tokenized} is tokenized and that of {plain} is not; "
                "their scores cannot be compared"
            )
        for expected, reference in zip(references, loaded.references(pairs), strict=True):
            if expected.split() != reference.split():  # whitespace does not count in any of the scores
                raise RegardError(
                    f"{first} and {name} read the references differently, {expected!r} and {reference!r}; "
                    "their scores cannot be compared"
                )
