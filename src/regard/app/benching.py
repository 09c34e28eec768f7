"""`regard bench`: tables, or JSON, and a file to compare with later."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from regard.bench import machine
from regard.errors import RegardError
from regard.jobs.folder import RunFolder


def measure(
    run: Path | None, source: Path | None, output: Path | None, *, peers: bool, quick: bool, print_json: bool
) -> None:
    """Measure, save, print."""
    if (run is None) != (source is None):
        raise RegardError("a run is measured on sentences: give RUN and --source, or neither")
    if run is not None and source is not None:
        RunFolder.open(run)
        if not source.is_file():
            raise RegardError(f"{source}: there is no such file")
    result = machine.bench(
        str(run or ""),
        str(source or ""),
        peers=peers,
        quick=quick,
        tell=lambda what: print(what, file=sys.stderr),
    )
    where = output or machine.place()
    where.parent.mkdir(parents=True, exist_ok=True)
    result.save(where)
    print(json.dumps(asdict(result)) if print_json else result.as_text())
    print(f"saved: {where}", file=sys.stderr)
