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
            help="`RUN` measures decoding speed; `reduction RUN`, the break-even point of token reduction; "
            "`paint RUN`, the time profile of diffusion sampling.",
        ),
    ],
    source: Annotated[Path | None, typer.Option(help="File with one sentence per line, to translate.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="For `reduction`: data to measure on (default: the run's own)."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds and levels.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="JSON file; for `reduction` the picture (default: reduction.png).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the speed of a run on this machine: decoding, token reduction, diffusion sampling.

    `RUN --source FILE` measures sentences per second by batch size and beam size. `reduction RUN` measures a
    classifier of texts or images at several levels of token reduction: accuracy, speed, operations, memory, and
    the input length from which reduction is faster. `paint RUN` measures the time of each part of a diffusion
    model, and the speed-up by token merging. Comparisons with other toolkits: benchmarks/ in the source.

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
    """Decoding speed of a translation run."""
    from regard.tasks.translation.speed import decoding_speed

    run = only_run(names, "RUN --source FILE")
    if source is None:
        raise RegardError("decoding speed is measured on a file of sentences: use --source")
    if not source.is_file():
        raise RegardError(f"{source}: there is no such file")
    speed = decoding_speed(run, source, quick=quick)
    write(asdict(speed), speed.as_text(), output, as_json)


def bench_reduction(
    names: list[str], data: Path | None, output: Path | None, quick: bool, as_json: bool
) -> None:
    """Break-even point of token reduction, as a picture and a table."""
    from regard.tasks.reduction_benchmark import measure_reduction
    from regard.viz.charts import draw_reduction
    from regard.viz.figure import save_as

    run = only_run(names, "reduction RUN")
    picture = output or Path("reduction.png")
    if picture.suffix not in (".png", ".svg"):
        raise RegardError(f"{picture}: the picture is written as .png or .svg")
    result = measure_reduction(run, data, quick=quick, log=lambda line: print(line, file=sys.stderr))
    write(result.as_json(), result.as_text(), None, as_json)
    save_as(draw_reduction(result.as_json()), picture)
    print(f"picture: {picture}", file=sys.stderr)


def bench_painting(names: list[str], output: Path | None, quick: bool, as_json: bool) -> None:
    """Time profile of a diffusion run, and the speed-up by token merging."""
    from regard.tasks.diffusion.model import ImageGenerator
    from regard.tasks.diffusion.profile import profile

    result = profile(ImageGenerator.load(only_run(names, "paint RUN")), rounds=3 if quick else 7)
    write({**asdict(result), "attention": result.attention}, result.as_text(), output, as_json)


def check_unused(name: str, value: Path | None) -> None:
    """Refuse an option that would have no effect."""
    if value is not None:
        subject = "token reduction" if name == "data" else "translation runs"
        raise RegardError(f"--{name} is only for benchmarks of {subject}")


def only_run(names: list[str], usage: str) -> Path:
    if not names:
        raise RegardError(f"the run is missing; usage: regard bench {usage}")
    if len(names) > 1:
        raise RegardError(f"expected one run, got {len(names)}: {', '.join(names)}")
    return Path(names[0])


def write(result: dict[str, Any], text: str, output: Path | None, as_json: bool) -> None:
    """Print a table or JSON, and write JSON to `output` if it is given."""
    if output is not None:
        storage.write_text(output, json.dumps(result, indent=2) + "\n")
    print(json.dumps(result) if as_json else text)
