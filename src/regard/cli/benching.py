"""`regard bench`: speed of the user's own runs, as a table or JSON."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard import storage
from regard.bench import reduction as reducing
from regard.bench.decoding import decoding_speed
from regard.bench.painting import profile
from regard.errors import RegardError
from regard.tasks.diffusion.model import ImageGenerator
from regard.viz.figure import save_as
from regard.viz.reduction import draw_reduction


def check_unused(name: str, given: Path | None) -> None:
    """Refuse an option that would do nothing."""
    if given is not None:
        wanted = "`reduction`" if name == "data" else "a run that translates"
        raise RegardError(f"--{name} is for a bench of {wanted}")


def only_run(names: list[str], usage: str) -> Path:
    if not names:
        raise RegardError(f"name the run to measure: regard bench {usage}")
    if len(names) > 1:
        raise RegardError(f"one run is measured, not {len(names)}: {', '.join(names)}")
    return Path(names[0])


def decoding(
    names: list[str], source: Path | None, output: Path | None, *, quick: bool, print_json: bool
) -> None:
    """Decoding speed of a run on the user's sentences."""
    run = only_run(names, "RUN --source FILE")
    if source is None:
        raise RegardError("a run is measured on sentences: give them with --source")
    if not source.is_file():
        raise RegardError(f"{source}: there is no such file")
    measured = decoding_speed(run, source, quick=quick)
    write(asdict(measured), measured.as_text(), output, print_json=print_json)


def reduction(
    names: list[str], data: Path | None, output: Path | None, *, quick: bool, print_json: bool
) -> None:
    """Break-even of token reduction, drawn and printed."""
    run = only_run(names, "reduction RUN")
    where = output or Path("reduction.png")
    if where.suffix not in (".png", ".svg"):
        raise RegardError(f"{where}: the picture of a reduction is written as .png or .svg")
    measured = reducing.bench(run, data, quick=quick, tell=lambda what: print(what, file=sys.stderr))
    write(measured.as_json(), measured.as_text(), None, print_json=print_json)
    save_as(draw_reduction(measured.as_json()), where)
    print(f"picture: {where}", file=sys.stderr)


def painting(names: list[str], output: Path | None, *, quick: bool, print_json: bool) -> None:
    """Time profile of a painting run, and the speed-up by merging."""
    measured = profile(ImageGenerator.load(only_run(names, "paint RUN")), rounds=3 if quick else 7)
    write(
        {**asdict(measured), "attention": measured.attention},
        measured.as_text(),
        output,
        print_json=print_json,
    )


def write(measured: dict[str, Any], text: str, output: Path | None, *, print_json: bool) -> None:
    """Print as a table or JSON, and save JSON where a file is given."""
    if output is not None:
        storage.write_text(output, json.dumps(measured, indent=2) + "\n")
    print(json.dumps(measured) if print_json else text)
