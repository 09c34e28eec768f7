"""`regard evaluate`: a run measured."""

import json
from collections.abc import Sequence
from pathlib import Path

from regard.cli.results import print_summary
from regard.cli.terminal import plain_warnings
from regard.tasks import load
from regard.tasks.encoder.reduction import amounts_of
from regard.tasks.spec import EvaluateOptions


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
    loaded = load(folder, *beside)
    amounts = None if merge is None else amounts_of(merge)
    options = EvaluateOptions(source, target, beam, batch_size, data, amounts)
    with plain_warnings():
        result = loaded.spec.evaluate(loaded, options)
    if as_json:
        print(json.dumps(result.as_json()))
    else:
        print_summary(result.summary())
