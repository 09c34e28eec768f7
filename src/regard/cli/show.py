"""`regard show`: short experiments of regard.lessons; each prints its numbers and draws a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.arguments import AsJson
from regard.errors import RegardError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.lessons import Lesson

app = typer.Typer(
    name="show",
    help="Short experiments that explain design choices; each prints its numbers and draws a picture.",
    epilog="Example: regard show scaling --out pictures",
    no_args_is_help=True,
)

Out = Annotated[Path, typer.Option(help="Folder for the pictures: LESSON.png and LESSON.svg.")]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Random seed.")]

PICTURES = Path("pictures")


@app.command(epilog="Example: regard show scaling --keys 128 --largest 4096")
def scaling(
    out: Out = PICTURES,
    json: AsJson = False,
    keys: Annotated[int, typer.Option(min=2, max=4096, help="Keys per query.")] = 64,
    largest: Annotated[int, typer.Option(min=2, max=4096, help="Largest size; sizes are 1, 2, 4 ...")] = 1024,
    draws: Annotated[int, typer.Option(min=16, max=65536, help="Random queries per size.")] = 4096,
    seed: Seed = 0,
) -> None:
    """Why dot products are divided by sqrt(d): entropy and gradient of the softmax by size d."""
    check_folder(out)
    from regard.lessons import scaling as lesson

    sizes = [2**power for power in range(largest.bit_length()) if 2**power <= largest]
    result = lesson.measure(sizes, keys=keys, draws=draws, seed=seed)
    present("scaling", result, lesson.draw(result), out, json)


@app.command(epilog="Example: regard show positions --length 128 --d-model 256")
def positions(
    out: Out = PICTURES,
    json: AsJson = False,
    length: Annotated[int, typer.Option(min=2, max=1024, help="Number of positions.")] = 64,
    d_model: Annotated[int, typer.Option(min=2, max=1024, help="Model size; an even number.")] = 64,
) -> None:
    """Sinusoidal positions: comparison with binary counting, similarity by distance, three ways to compute."""
    if d_model % 2:
        raise RegardError(f"--d-model is {d_model}; sines and cosines come in pairs, so it must be even")
    check_folder(out)
    from regard.lessons import positions as lesson

    result = lesson.compute(length, d_model)
    present("positions", result, lesson.draw(result), out, json)


@app.command(epilog="Example: regard show cost --quick")
def cost(
    out: Out = PICTURES,
    json: AsJson = False,
    quick: Annotated[bool, typer.Option("--quick", help="Lengths up to 4096, in about 12 seconds.")] = False,
    longest: Annotated[
        int, typer.Option(min=512, max=16384, help="Largest length; lengths are 128, 256 ...; 8192 needs 1 GB.")
    ] = 8192,
    d_model: Annotated[int, typer.Option(min=8, max=1024, help="Model size.")] = 64,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="Approximate total time.")] = 40.0,
) -> None:
    """Time and memory of attention, recurrence and convolution by length, measured on this machine."""
    check_folder(out)
    from regard.cli.terminal import log
    from regard.lessons import cost as lesson

    if quick:
        longest, seconds = min(longest, 4096), min(seconds, 12.0)
    lengths = [128 * 2**power for power in range(8) if 128 * 2**power <= longest]
    result = lesson.measure(lengths, d_model=d_model, seconds=seconds, progress=log)
    present("cost", result, lesson.draw(result), out, json)


@app.command(epilog="Example: regard show bottleneck --task reverse")
def bottleneck(
    out: Out = PICTURES,
    json: AsJson = False,
    task: Annotated[Literal["copy", "reverse"], typer.Option(help="Copy the line, or reverse it.")] = "copy",
    longest: Annotated[int, typer.Option(min=1, max=200, help="Maximum symbols per line.")] = 20,
    size: Annotated[
        int, typer.Option(min=4, max=1024, help="Size of the encoder state, both directions together.")
    ] = 64,
    steps: Annotated[int, typer.Option(min=1, max=1_000_000, help="Updates per model.")] = 2500,
    lines: Annotated[int, typer.Option(min=1, max=100_000, help="Test lines per length.")] = 500,
    seed: Seed = 0,
) -> None:
    """Why attention: copying lines through a single vector, and with attention; about four minutes."""
    check_folder(out)
    from regard.cli.terminal import log
    from regard.lessons import bottleneck as lesson

    result = lesson.measure(
        task, max_length=longest, size=size, steps=steps, lines=lines, seed=seed, progress=log
    )
    present("bottleneck", result, lesson.draw(result), out, json)


@app.command(epilog="Example: regard show smoothing --smoothing 0.05 --smoothing 0.3")
def smoothing(
    out: Out = PICTURES,
    json: AsJson = False,
    smoothing: Annotated[
        list[float] | None, typer.Option(min=0.0, max=0.9, help="Label smoothing value; repeat for more.")
    ] = None,
) -> None:
    """Label smoothing: its target distribution, and a loss that rises when the model is over-confident."""
    check_folder(out)
    from regard.lessons import smoothing as lesson

    chosen = sorted(set(smoothing)) if smoothing else [0.0, 0.1, 0.2, 0.4]
    shown = next((value for value in chosen if value > 0), 0.0)
    result = lesson.compute(chosen, target_smoothing=shown)
    present("smoothing", result, lesson.draw(result), out, json)


@app.command(epilog="Example: regard show schedule --d-model 256 --warmup 1000")
def schedule(
    out: Out = PICTURES,
    json: AsJson = False,
    d_model: Annotated[int, typer.Option(min=1, max=65536, help="Model size in the paper's formula.")] = 512,
    warmup: Annotated[int, typer.Option(min=1, max=1_000_000, help="Warm-up steps.")] = 3000,
    steps: Annotated[int, typer.Option(min=2, max=2_000_000, help="Total steps.")] = 20000,
) -> None:
    """Learning-rate schedules: the paper's at several sizes and warm-ups, compared with every other kind."""
    if warmup >= steps:
        raise RegardError(
            f"--warmup is {warmup} and --steps is {steps}; the warm-up must end before the last step"
        )
    check_folder(out)
    from regard.lessons import schedule as lesson

    result = lesson.compute(d_model, warmup, steps)
    present("schedule", result, lesson.draw(result), out, json)


def present(name: str, result: "Lesson", figure: "Figure", out: Path, as_json: bool) -> None:
    """Save the pictures, then print the numbers as tables or JSON."""
    import json

    from regard.cli.terminal import log, print_table
    from regard.viz.figure import save

    try:
        pictures = save(figure, out / name)
    except OSError as error:
        raise RegardError(f"the pictures cannot be written to {out}: {error.strerror}") from error
    for path in pictures:
        log(f"wrote {path}")
    if as_json:
        paths = [str(path) for path in pictures]
        typer.echo(json.dumps({"lesson": name, "pictures": paths, **result.as_json()}, allow_nan=False))
        return
    for table in result.tables():
        print_table(table)
    typer.echo(result.finding())


def check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written to, before any work is done."""
    if out.exists() and not out.is_dir():
        raise RegardError(f"--out {out} is a file; give a folder for the pictures")
    try:
        out.mkdir(parents=True, exist_ok=True)
        # os.access does not detect a read-only file system
        probe = out / ".regard-write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RegardError(f"--out {out} cannot be written to: {error.strerror}") from error
