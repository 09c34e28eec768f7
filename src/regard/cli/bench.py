"""`regard bench`: the speed of a run on this machine, as a table or JSON."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from regard import storage
from regard.cli.arguments import AsJson, Run
from regard.errors import RegardError

app = typer.Typer(
    name="bench",
    help="Measure the speed of a run on this machine: decoding, token reduction, diffusion sampling.",
    epilog="Example: regard bench speed runs/multi30k --source test.en",
    no_args_is_help=True,
)

Quick = Annotated[bool, typer.Option("--quick", help="Fewer rounds and levels.")]
JsonFile = Annotated[Path | None, typer.Option("-o", "--output", help="Output file for the JSON.")]


@app.command(epilog="Example: regard bench speed runs/multi30k --source test.en --json")
def speed(
    run: Run,
    source: Annotated[Path, typer.Option(help="File with one sentence per line, to translate.")],
    quick: Quick = False,
    output: JsonFile = None,
    as_json: AsJson = False,
) -> None:
    """Decoding speed of a translation run: sentences per second by batch size and beam size.

    Takes some minutes; --quick is shorter.
    """
    from regard.tasks.translation.speed import decoding_speed

    if not source.is_file():
        raise RegardError(f"{source}: there is no such file")
    result = decoding_speed(run, source, quick=quick)
    write(asdict(result), result.as_text(), output, as_json)


@app.command(epilog="Example: regard bench reduction runs/vit -o reduction.png")
def reduction(
    run: Run,
    data: Annotated[Path | None, typer.Option(help="Data to measure on (default: the run's own).")] = None,
    quick: Quick = False,
    output: Annotated[Path, typer.Option("-o", "--output", help="Output picture, .png or .svg.")] = Path(
        "reduction.png"
    ),
    as_json: AsJson = False,
) -> None:
    """Token reduction of a classifier, at several levels: accuracy, speed, operations and memory.

    Also the input length from which reduction is faster. Takes some minutes; --quick is shorter.
    """
    from regard.cli.terminal import log
    from regard.tasks.reduction_benchmark import measure_reduction
    from regard.viz.charts import draw_reduction
    from regard.viz.figure import save_as

    if output.suffix not in (".png", ".svg"):
        raise RegardError(f"{output}: the picture is written as .png or .svg")
    result = measure_reduction(run, data, quick=quick, log=log)
    write(result.as_json(), result.as_text(), None, as_json)
    save_as(draw_reduction(result.as_json()), output)
    log(f"picture: {output}")


@app.command(epilog="Example: regard bench paint runs/paint --quick")
def paint(run: Run, quick: Quick = False, output: JsonFile = None, as_json: AsJson = False) -> None:
    """Time of each part of a diffusion model, and the speed-up by token merging."""
    from regard.tasks.diffusion.model import ImageGenerator
    from regard.tasks.diffusion.profile import profile

    result = profile(ImageGenerator.load(run), rounds=3 if quick else 7)
    write({**asdict(result), "attention": result.attention}, result.as_text(), output, as_json)


def write(result: dict[str, Any], text: str, output: Path | None, as_json: bool) -> None:
    """Print a table or JSON, and write JSON to `output` if it is given."""
    if output is not None:
        storage.write_text(output, json.dumps(result, indent=2) + "\n")
    print(json.dumps(result) if as_json else text)
