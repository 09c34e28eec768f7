"""`regard bench`: the speed of a run on this machine, as a table or JSON."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from regard import storage
from regard.cli.arguments import AsJson
from regard.errors import RegardError


def bench(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[reduction|paint] RUN",
            help="`RUN` measures decoding speed; `reduction RUN`, the break-even of token reduction; "
            "`paint RUN`, the time profile of painting.",
        ),
    ],
    source: Annotated[Path | None, typer.Option(help="Sentences to translate, one a line.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="For `reduction`: what to measure on, if not the run's own."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds and levels.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="JSON file for the result; of `reduction` a picture, reduction.png."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the speed of a run on this machine: decoding, token reduction, painting.

    `RUN --source FILE` measures sentences a second by batch size and beam size. `reduction RUN` measures a run
    that labels texts or images with fewer and fewer tokens: accuracy, speed, operations and memory, and from
    which length on reduction is faster. `paint RUN` measures the share of each part of a painting run, and the
    speed-up by merging pixels. Comparisons with other software are scripts in the folder benchmarks/ of the
    source.

    Examples:

    regard bench runs/multi30k --source test.en --json

    regard bench reduction runs/vit -o reduction.png

    regard bench paint runs/paint
    """
    if names[0] == "reduction":
        check_unused("source", source)
        bench_reduction(names[1:], data, output, quick, as_json)
        return
    check_unused("data", data)
    if names[0] == "paint":
        check_unused("source", source)
        bench_painting(names[1:], output, quick, as_json)
        return
    bench_decoding(names, source, output, quick, as_json)


def bench_decoding(
    names: list[str], source: Path | None, output: Path | None, quick: bool, as_json: bool
) -> None:
    """Decoding speed of a run on the user's sentences."""
    from regard.bench.decoding import decoding_speed

    run = only_run(names, "RUN --source FILE")
    if source is None:
        raise RegardError("a run is measured on sentences: give them with --source")
    if not source.is_file():
        raise RegardError(f"{source}: there is no such file")
    speed = decoding_speed(run, source, quick=quick)
    write(asdict(speed), speed.as_text(), output, as_json)


def bench_reduction(
    names: list[str], data: Path | None, output: Path | None, quick: bool, as_json: bool
) -> None:
    """Break-even of token reduction, drawn and printed."""
    from regard.bench import reduction
    from regard.viz.charts import draw_reduction
    from regard.viz.figure import save_as

    run = only_run(names, "reduction RUN")
    picture = output or Path("reduction.png")
    if picture.suffix not in (".png", ".svg"):
        raise RegardError(f"{picture}: the picture of a reduction is written as .png or .svg")
    measured = reduction.bench(run, data, quick=quick, tell=lambda line: print(line, file=sys.stderr))
    write(measured.as_json(), measured.as_text(), None, as_json)
    save_as(draw_reduction(measured.as_json()), picture)
    print(f"picture: {picture}", file=sys.stderr)


def bench_painting(names: list[str], output: Path | None, quick: bool, as_json: bool) -> None:
    """Time profile of a painting run, and the speed-up by merging."""
    from regard.bench.painting import profile
    from regard.tasks.diffusion.model import ImageGenerator

    measured = profile(ImageGenerator.load(only_run(names, "paint RUN")), rounds=3 if quick else 7)
    write({**asdict(measured), "attention": measured.attention}, measured.as_text(), output, as_json)


def check_unused(name: str, value: Path | None) -> None:
    """Refuse an option that would have no effect."""
    if value is not None:
        subject = "`reduction`" if name == "data" else "a run that translates"
        raise RegardError(f"--{name} is for a bench of {subject}")


def only_run(names: list[str], usage: str) -> Path:
    if not names:
        raise RegardError(f"name the run to measure: regard bench {usage}")
    if len(names) > 1:
        raise RegardError(f"one run is measured, not {len(names)}: {', '.join(names)}")
    return Path(names[0])


def write(measured: dict[str, Any], text: str, output: Path | None, as_json: bool) -> None:
    """Print a table or JSON; save JSON where a file is given."""
    if output is not None:
        storage.write_text(output, json.dumps(measured, indent=2) + "\n")
    print(json.dumps(measured) if as_json else text)
