"""Runs side by side: size, training, speed and scores on the same sentences, with a paired bootstrap."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.corpus import Pair
from regard.errors import RegardError
from regard.metrics import PairedBootstrap, paired_bootstrap
from regard.tasks.history import History, read_history
from regard.tasks.metrics_log import NullListener, ProgressListener
from regard.tasks.training import count_parameters
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.model import Evaluation, Translator, pairs_of_files
from regard.tasks.translation.task import is_tokenized

WAY_OUT = "give --source and --target to compare them on sentences of your own"


@dataclass(frozen=True)
class Compared:
    """One run of a comparison."""

    folder: Path
    model: str
    parameters: int
    beam: int
    history: History | None
    """Nothing where metrics.jsonl is missing or damaged."""
    evaluation: Evaluation
    paired: PairedBootstrap
    """Against the first run."""

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
    """Runs measured on the same sentences; the first is the one the others are tested against."""

    test_set: str
    """Where the sentences come from, in words."""
    runs: list[Compared]

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
            "runs": [each.as_json() for each in self.runs],
        }


def compare(
    runs: Sequence[str | Path],
    *,
    source: str | Path | None = None,
    target: str | Path | None = None,
    beam: int | None = None,
    listener: ProgressListener | None = None,
) -> Comparison:
    """Translate the same sentences with every run: those of two files, or the test split the runs share.

    Loss is left out: runs with other vocabularies count other tokens.
    """
    listener = listener or NullListener()
    opened = open_runs([Path(each) for each in runs])
    first = next(iter(opened.values())).recipe
    pairs = pairs_of_files(source, target)
    test_set = name_of_split(first) if pairs is None else f"{source} and {target}"
    if pairs is None:
        pairs = shared_split(opened)
    check_scores_mean_the_same(opened, pairs)
    evaluations = [measured(name, loaded, pairs, beam, listener) for name, loaded in opened.items()]
    tested = paired_bootstrap(
        list(opened),
        [each.translations for each in evaluations],
        evaluations[0].references,
        tokenized=is_tokenized(first),
    )
    return Comparison(
        test_set,
        [
            compared(loaded, beam, evaluation, paired, listener)
            for loaded, evaluation, paired in zip(opened.values(), evaluations, tested, strict=True)
        ],
    )


def measured(
    name: str, loaded: Translator, pairs: Sequence[Pair], beam: int | None, listener: ProgressListener
) -> Evaluation:
    """One run's scores; one sentence goes ahead, so that what is set up once is not in the time."""
    listener.log(f"translating {len(pairs):,} sentences with {name} ...")
    loaded.translate([source for source, _ in pairs[:1]], beam=beam)
    return loaded.evaluate(pairs, beam=beam)


def compared(
    loaded: Translator,
    beam: int | None,
    evaluation: Evaluation,
    paired: PairedBootstrap,
    listener: ProgressListener,
) -> Compared:
    """One run with what its folder tells of its training."""
    metrics = loaded.folder.path / "metrics.jsonl"
    history = read_history(metrics)
    if history is None:
        listener.log(f"{metrics} is missing or damaged: nothing is known of the training of {paired.name}")
    return Compared(
        folder=loaded.folder.path,
        model=str(loaded.recipe.model),
        parameters=count_parameters(loaded.model),
        beam=loaded.options(beam).beam,
        history=history,
        evaluation=evaluation,
        paired=paired,
    )


def open_runs(folders: Sequence[Path]) -> dict[str, Translator]:
    """The runs by name, in the order given."""
    if len(folders) < 2:
        raise RegardError(f"a comparison needs at least two runs, not {len(folders)}")
    seen: dict[Path, Path] = {}
    for folder in folders:
        place = folder.resolve()
        if place in seen:
            also = "" if seen[place] == folder else f", also as {seen[place]}"
            raise RegardError(f"the run {folder} is given twice{also}; a comparison needs different ones")
        seen[place] = folder
    return {name: Translator.load(folder) for name, folder in zip(short_names(folders), folders, strict=True)}


def short_names(folders: Sequence[Path]) -> list[str]:
    """The folder's own name, or the path where several folders have that name."""
    names = [Path(os.path.abspath(folder)).name for folder in folders]
    count = Counter(names)
    return [name if count[name] == 1 else str(folder) for name, folder in zip(names, folders, strict=True)]


def name_of_split(recipe: TranslationRecipe) -> str:
    data = recipe.data
    where = data.corpus if data.corpus != "files" else data.test_source or data.source
    return f"the test split of {where}, {direction(recipe)}"


def direction(recipe: TranslationRecipe) -> str:
    return f"{recipe.data.source_language} to {recipe.data.target_language}"


def shared_split(opened: dict[str, Translator]) -> list[Pair]:
    """The test split of all runs; a data section that several have is read once."""
    (first, model), *others = opened.items()
    splits = {model.recipe.data: split_of(first, model)}
    for name, loaded in others:
        ways = direction(model.recipe), direction(loaded.recipe)
        if ways[0] != ways[1]:
            raise RegardError(f"{first} translates {ways[0]} and {name} {ways[1]}; {WAY_OUT}")
        if loaded.recipe.data not in splits:
            splits[loaded.recipe.data] = split_of(name, loaded)
        if splits[loaded.recipe.data] != splits[model.recipe.data]:
            raise RegardError(f"{first} and {name} have different test sentences; {WAY_OUT}")
    return splits[model.recipe.data]


def split_of(name: str, loaded: Translator) -> list[Pair]:
    try:
        return loaded.test_pairs()
    except RegardError as problem:
        reason = str(problem).removesuffix(".")
        raise RegardError(f"the test split of {name} cannot be read ({reason}); {WAY_OUT}") from None


def check_scores_mean_the_same(opened: dict[str, Translator], pairs: Sequence[Pair]) -> None:
    """Refuse runs whose scores would be of different things: other references, or other tokens in them."""
    (first, model), *others = opened.items()
    references = model.references(pairs)
    for name, loaded in others:
        if is_tokenized(model.recipe) != is_tokenized(loaded.recipe):
            tokenized, other = (first, name) if is_tokenized(model.recipe) else (name, first)
            raise RegardError(
                f"the text of {tokenized} is tokenized and that of {other} is not: "
                "their scores cannot be compared"
            )
        for one, another in zip(references, loaded.references(pairs), strict=True):
            if one.split() != another.split():  # blanks do not count in any of the scores
                raise RegardError(
                    f"{first} and {name} read the references differently, {one!r} and {another!r}: "
                    "their scores cannot be compared"
                )
