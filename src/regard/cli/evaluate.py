"""`regard evaluate`: the scores of a run on files, or on the test split of its data."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import AsJson, BatchSize, Beam, EnsembleRuns, Merge, Run, Source, Target


def evaluate(
    run: Run,
    source: Source = None,
    target: Target = None,
    beam: Beam = None,
    batch_size: BatchSize = None,
    data: Annotated[
        Path | None,
        typer.Option(help="A labelled file, a text (for a GPT) or a folder of images."),
    ] = None,
    merge: Merge = None,
    ensemble: EnsembleRuns = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a run: BLEU, chrF, TER (sacreBLEU), loss; accuracy, F1, exact match; bits per byte.

    Examples:

    regard evaluate runs/picturebook

    regard evaluate runs/mine --source test.de --target test.en --json

    regard evaluate runs/one --with runs/other

    regard evaluate runs/ner --data test.conll

    regard evaluate runs/vit --merge 0.2
    """
    from regard.cli.terminal import plain_warnings, print_summary
    from regard.tasks import load
    from regard.tasks.encoder.reduction import parse_merge_amounts
    from regard.tasks.spec import EvaluateOptions

    loaded = load(run, *(ensemble or []))
    amounts = None if merge is None else parse_merge_amounts(merge)
    options = EvaluateOptions(source, target, beam, batch_size, data, amounts)
    with plain_warnings():
        result = loaded.spec.evaluate(loaded, options)
    if as_json:
        print(json.dumps(result.as_json()))
    else:
        print_summary(result.summary())
