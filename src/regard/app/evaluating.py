"""`regard evaluate`: a run measured, alone or against another."""

import json
import math
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from regard.app.results import print_quality
from regard.data.corpus import Pair, read_pairs
from regard.errors import RegardError
from regard.evaluation import significance
from regard.jobs import load_translator
from regard.jobs.loaded import Evaluation
from regard.jobs.translation import is_tokenised


def run(
    folder: Path,
    source: Path | None,
    target: Path | None,
    against: Path | None,
    beam: int | None,
    as_json: bool,
) -> None:
    """Measure on two files, or on the test split of the run's own data."""
    loaded = load_translator(folder)
    pairs = test_pairs(source, target) or loaded.test_pairs()
    found = loaded.evaluate(pairs, beam=beam)
    compared = None
    if against is not None:
        other = load_translator(against).evaluate(pairs, beam=beam)
        compared = significance(
            [str(folder), str(against)],
            [found.translations, other.translations],
            found.references,
            tokenised=is_tokenised(loaded.recipe),
        )
    result = as_dict(found) | ({"paired_bootstrap": compared} if compared else {})
    if as_json:
        print(json.dumps(result))
    else:
        print_result(found, compared)


def test_pairs(source: Path | None, target: Path | None) -> list[Pair] | None:
    if source is None and target is None:
        return None
    if source is None or target is None:
        raise RegardError("--source and --target go together: the sentences and their references")
    return list(read_pairs(source, target))


def as_dict(found: Evaluation) -> dict[str, object]:
    return {
        **asdict(found.quality),
        "loss": found.loss,
        "perplexity": math.exp(min(found.loss, 700)),
        "by_length": found.by_length,
    }


def print_result(found: Evaluation, compared: list[dict[str, float | str | None]] | None) -> None:
    console = Console(highlight=False)
    print_quality(console, found.quality, found.loss)
    table = Table("source words", "sentences", "BLEU")
    for row in found.by_length:
        table.add_row(str(row["words"]), str(row["sentences"]), f"{row['bleu']:.2f}")
    console.print(table)
    for other in compared or []:
        p_value = "" if other["p_value"] is None else f"  p = {other['p_value']:.4f}"
        console.print(
            f"{other['name']}: BLEU {other['bleu']:.2f} ± {other['half_width'] or 0:.2f}{p_value}",
            soft_wrap=True,
        )
