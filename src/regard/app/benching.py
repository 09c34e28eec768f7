"""`regard bench`: tables, or JSON, and a file to compare with later."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from regard import disk
from regard.bench import machine
from regard.bench import reduction as reducing
from regard.bench.painting import profile
from regard.errors import RegardError
from regard.jobs import load_painter
from regard.jobs.folder import RunFolder
from regard.look.figure import save_as
from regard.look.reduction import draw_reduction


def check_unused(name: str, given: Path | None) -> None:
    """Refuse an option that would do nothing."""
    if given is not None:
        wanted = "`reduction`" if name == "data" else "a run that translates"
        raise RegardError(f"--{name} is for a bench of {wanted}")


def only_run(names: list[str]) -> Path | None:
    """One run, or none."""
    if len(names) > 1:
        raise RegardError(f"one run is measured, not {len(names)}: {', '.join(names)}")
    return Path(names[0]) if names else None


def reduction(
    names: list[str], data: Path | None, output: Path | None, *, quick: bool, print_json: bool
) -> None:
    """Measure a run with fewer and fewer tokens, draw, print."""
    run = only_run(names)
    if run is None:
        raise RegardError("name the run to measure: regard bench reduction RUN")
    where = output or Path("reduction.png")
    if where.suffix not in (".png", ".svg"):
        raise RegardError(f"{where}: the picture of a reduction is written as .png or .svg")
    found = reducing.bench(run, data, quick=quick, tell=lambda what: print(what, file=sys.stderr))
    print(json.dumps(found.as_json()) if print_json else found.as_text())
    save_as(draw_reduction(found.as_json()), where)
    print(f"picture: {where}", file=sys.stderr)


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


def painting(names: list[str], output: Path | None, *, quick: bool, print_json: bool) -> None:
    """Where the time of a run that paints goes, and what merging saves."""
    run = only_run(names)
    if run is None:
        raise RegardError("name the run to measure: regard bench paint RUN")
    found = profile(load_painter(run), rounds=3 if quick else 7)
    told = {**asdict(found), "attention": found.attention}
    if output is not None:
        disk.write_text(output, json.dumps(told, indent=2) + "\n")
    print(json.dumps(told) if print_json else found.as_text())
