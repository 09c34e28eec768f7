"""`regard show`: each lesson of regard.lessons as a command that prints its numbers and draws its picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.errors import RegardError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.lessons import Lesson

app = typer.Typer(
    name="show",
    help="Why it is so: each lesson computes its claim, prints the numbers and draws a picture.",
    epilog="Example: regard show scaling --out pictures",
    no_args_is_help=True,
)

Out = Annotated[Path, typer.Option(help="Folder for the pictures: LESSON.png and LESSON.svg.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, on stdout.")]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="The same seed, the same numbers.")]

PICTURES = Path("pictures")


@app.command(epilog="Example: regard show scaling --keys 128 --largest 4096")
def scaling(
    out: Out = PICTURES,
    json: Json = False,
    keys: Annotated[int, typer.Option(min=2, max=4096, help="Keys each query looks at.")] = 64,
    largest: Annotated[int, typer.Option(min=2, max=4096, help="Sizes are 1, 2, 4 ... up to this.")] = 1024,
    draws: Annotated[int, typer.Option(min=16, max=65536, help="Queries drawn at each size.")] = 4096,
    seed: Seed = 0,
) -> None:
    """Why dot products are divided by sqrt(d): entropy and gradient of the softmax against d."""
    check_folder(out)
    from regard.lessons import scaling as lesson

    sizes = [2**power for power in range(largest.bit_length()) if 2**power <= largest]
    result = lesson.measure(sizes, keys=keys, draws=draws, seed=seed)
    present("scaling", result, lesson.draw(result), out, json)


@app.command(epilog="Example: regard show positions --length 128 --d-model 256")
def positions(
    out: Out = PICTURES,
    json: Json = False,
    length: Annotated[int, typer.Option(min=2, max=1024, help="Positions 0, 1 ... to show.")] = 64,
    d_model: Annotated[int, typer.Option(min=2, max=1024, help="Components; an even number.")] = 64,
) -> None:
    """Sinusoidal and binary positions, similarity by distance, three ways to compute the encoding."""
    if d_model % 2:
        raise RegardError(f"--d-model is {d_model}; sines and cosines come in pairs, so it must be even.")
    check_folder(out)
    from regard.lessons import positions as lesson

    result = lesson.compute(length, d_model)
    present("positions", result, lesson.draw(result), out, json)


@app.command(epilog="Example: regard show cost --quick")
def cost(
    out: Out = PICTURES,
    json: Json = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Lengths up to 4096, within about 12 seconds.")
    ] = False,
    longest: Annotated[
        int, typer.Option(min=512, max=16384, help="Lengths are 128, 256 ... up to this; 8192 takes 1 GB.")
    ] = 8192,
    d_model: Annotated[int, typer.Option(min=8, max=1024, help="Size of a token in every layer.")] = 64,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="About what all may take.")] = 40.0,
) -> None:
    """Time and memory of attention, recurrence and convolution against length, measured on this machine."""
    check_folder(out)
    from regard.cli.output import log
    from regard.lessons import cost as lesson

    if quick:
        longest, seconds = min(longest, 4096), min(seconds, 12.0)
    lengths = [128 * 2**power for power in range(8) if 128 * 2**power <= longest]
    result = lesson.measure(lengths, d_model=d_model, seconds=seconds, progress=log)
    present("cost", result, lesson.draw(result), out, json)


@app.command(epilog="Example: regard show bottleneck --task reverse")
def bottleneck(
    out: Out = PICTURES,
    json: Json = False,
    task: Annotated[
        Literal["copy", "reverse"], typer.Option(help="Write the line as it was read, or backwards.")
    ] = "copy",
    longest: Annotated[int, typer.Option(min=1, max=200, help="Lines have 1 to this many symbols.")] = 20,
    size: Annotated[int, typer.Option(min=4, max=1024, help="Size of a state; both ways together.")] = 64,
    steps: Annotated[int, typer.Option(min=1, max=1_000_000, help="Updates of each model.")] = 2500,
    lines: Annotated[int, typer.Option(min=1, max=100_000, help="Lines tested at each length.")] = 500,
    seed: Seed = 0,
) -> None:
    """Why the decoder looks back: lines copied through one vector, and with attention; about four minutes."""
    check_folder(out)
    from regard.cli.output import log
    from regard.lessons import bottleneck as lesson

    result = lesson.measure(
        task, max_length=longest, size=size, steps=steps, lines=lines, seed=seed, progress=log
    )
    present("bottleneck", result, lesson.draw(result), out, json)


@app.command(epilog="Example: regard show smoothing --smoothing 0.05 --smoothing 0.3")
def smoothing(
    out: Out = PICTURES,
    json: Json = False,
    smoothing: Annotated[
        list[float] | None, typer.Option(min=0.0, max=0.9, help="A smoothing to show; repeat it for several.")
    ] = None,
) -> None:
    """Label smoothing: the target it aims at, and a loss that rises again when the model is too sure."""
    check_folder(out)
    from regard.lessons import smoothing as lesson

    chosen = sorted(set(smoothing)) if smoothing else [0.0, 0.1, 0.2, 0.4]
    shown = next((value for value in chosen if value > 0), 0.0)
    result = lesson.compute(chosen, target_smoothing=shown)
    present("smoothing", result, lesson.draw(result), out, json)


@app.command(epilog="Example: regard show schedule --d-model 256 --warmup 1000")
def schedule(
    out: Out = PICTURES,
    json: Json = False,
    d_model: Annotated[int, typer.Option(min=1, max=65536, help="Size of the paper's model.")] = 512,
    warmup: Annotated[int, typer.Option(min=1, max=1_000_000, help="Steps until the peak.")] = 3000,
    steps: Annotated[int, typer.Option(min=2, max=2_000_000, help="The last step.")] = 20000,
) -> None:
    """Learning-rate schedules: the paper's at several sizes and warm-ups, and every other kind beside it."""
    if warmup >= steps:
        raise RegardError(
            f"--warmup is {warmup} and --steps is {steps}; the warm-up must end before the last step."
        )
    check_folder(out)
    from regard.lessons import schedule as lesson

    result = lesson.compute(d_model, warmup, steps)
    present("schedule", result, lesson.draw(result), out, json)


def present(name: str, result: "Lesson", figure: "Figure", out: Path, as_json: bool) -> None:
    """Save the picture, then print the numbers for a reader or for a program."""
    import json

    from regard.cli.output import log, print_table
    from regard.viz.figure import save

    try:
        pictures = save(figure, out / name)
    except OSError as error:
        raise RegardError(f"the pictures cannot be written to {out}: {error.strerror}.") from error
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
    """Refuse a folder that cannot be written to before any work is done."""
    if out.exists() and not out.is_dir():
        raise RegardError(f"--out {out} is a file; give a folder for the pictures.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        # os.access is not enough: a read-only disk is noticed only by writing.
        probe = out / ".regard-writes-here"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RegardError(f"--out {out} cannot be written to: {error.strerror}.") from error
