"""`regard evaluate`: the scores of a run on files, or on the test split of its own data."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import AsJson, BatchSize, Beam, Merge, Run, Source, Target, With


def evaluate(
    run: Run,
    source: Source = None,
    target: Target = None,
    beam: Beam = None,
    batch_size: BatchSize = None,
    data: Annotated[
        Path | None,
        typer.Option(help="A file of labels, tags or answers; a text, for a GPT; for images a folder."),
    ] = None,
    merge: Merge = None,
    beside: With = None,
    as_json: AsJson = False,
) -> None:
    """Measure a run: BLEU, chrF, TER with sacreBLEU's signature, loss; accuracy, F1, exact match; bits a byte.

    Examples:

    regard evaluate runs/picturebook

    regard evaluate runs/mine --source test.de --target test.en --json

    regard evaluate runs/one --with runs/other

    regard evaluate runs/ner --data test.conll

    regard evaluate runs/vit --merge 0.2
    """
    from regard.cli.output import print_summary
    from regard.cli.terminal import plain_warnings
    from regard.tasks import load
    from regard.tasks.encoder.reduction import parse_merge_amounts
    from regard.tasks.spec import EvaluateOptions

    loaded = load(run, *(beside or []))
    amounts = None if merge is None else parse_merge_amounts(merge)
    options = EvaluateOptions(source, target, beam, batch_size, data, amounts)
    with plain_warnings():
        result = loaded.spec.evaluate(loaded, options)
    if as_json:
        print(json.dumps(result.as_json()))
    else:
        print_summary(result.summary())
