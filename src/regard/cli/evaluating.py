"""`regard evaluate`: a run measured."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from regard.cli.results import print_measured, print_quality
from regard.cli.terminal import plain_warnings
from regard.cli.translating import memory_advice
from regard.engine.allocator import tuned_allocator
from regard.errors import RegardError, memory_hint
from regard.tasks import load, must_be
from regard.tasks.encoder.model import LoadedEncoder
from regard.tasks.encoder.reduction import amounts_of
from regard.tasks.image_classification.model import LoadedVision
from regard.tasks.language_modeling.model import LoadedWriter
from regard.tasks.translation.model import Evaluation, LoadedTranslator, pairs_of_files

MERGED = "--merge is for labels, tags, answers and images"


def run(
    folder: Path,
    source: Path | None,
    target: Path | None,
    beam: int | None,
    batch_size: int | None,
    data: Path | None,
    as_json: bool,
    merge: str | None = None,
    beside: Sequence[Path] = (),
) -> None:
    """Measure on files, or on the test split of the run's own data."""
    opened = load(folder, *beside)
    if isinstance(opened, LoadedEncoder | LoadedWriter | LoadedVision):
        if source or target or beam or batch_size:
            raise RegardError(f"{folder} does not translate: its data are given with --data")
        if merge is not None:
            if isinstance(opened, LoadedWriter):
                raise RegardError(MERGED)
            opened.merge(amounts_of(merge))
        with tuned_allocator():
            run_texts(opened, data, as_json)
        return
    if merge is not None:
        raise RegardError(MERGED)
    if data:
        raise RegardError(
            "--data is for labels, tags, answers, texts and images; translations have --source and --target"
        )
    loaded = must_be(LoadedTranslator, opened, folder, "translates")
    batch_size = batch_size or loaded.recipe.decode.batch_size
    with memory_hint(memory_advice(batch_size, loaded.options(beam).beam)):
        pairs = pairs_of_files(source, target) or loaded.test_pairs()
        found = loaded.evaluate(pairs, beam=beam, batch_size=batch_size)
    if as_json:
        print(json.dumps(as_dict(found)))
    else:
        print_result(found)


def run_texts(loaded: LoadedEncoder | LoadedWriter | LoadedVision, data: Path | None, as_json: bool) -> None:
    """Measure labels, tags or answers, or how well a text is foretold."""
    with plain_warnings():
        measured = loaded.evaluate(data)
    if as_json:
        print(json.dumps(asdict(measured)))
    else:
        print_measured(Console(highlight=False), measured, "examples")


def as_dict(found: Evaluation) -> dict[str, object]:
    return {
        **asdict(found.quality),
        "loss": found.loss,
        "perplexity": math.exp(min(found.loss, 700)),
        "by_length": found.by_length,
    }


def print_result(found: Evaluation) -> None:
    console = Console(highlight=False)
    print_quality(console, found.quality, found.loss)
    table = Table("source words", "sentences", "BLEU")
    for row in found.by_length:
        table.add_row(str(row["words"]), str(row["sentences"]), f"{row['bleu']:.2f}")
    console.print(table)
