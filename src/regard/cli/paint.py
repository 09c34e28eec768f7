"""`regard paint`: prompts in, a grid of pictures out."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.arguments import AsJson, Run
from regard.errors import RegardError

SUFFIXES = (".png", ".svg")


def paint(
    run: Run,
    prompts: Annotated[
        list[str], typer.Argument(metavar="PROMPT...", help="What to paint, a row of pictures each.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The grid to write, .png or .svg.")] = Path(
        "painted.png"
    ),
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Pictures for each prompt.")] = 8,
    steps: Annotated[
        int | None, typer.Option(min=1, help="From noise to picture.", show_default="the recipe's")
    ] = None,
    guidance: Annotated[
        float | None,
        typer.Option(
            min=0, help="How much the prompt counts: 1 as learned, 0 not.", show_default="the recipe's"
        ),
    ] = None,
    sampler: Annotated[
        Literal["ddim", "ddpm"] | None,
        typer.Option(help="ddpm: new noise at each step.", show_default="the recipe's"),
    ] = None,
    merge: Annotated[
        float, typer.Option(min=0, max=0.5, help="Share of the pixels merged before they look around.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed paints the same pictures.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Paint what prompts say, and write the pictures as a grid.

    Examples:

    regard paint runs/paint "a seven" "eine Drei" -o grid.png

    regard paint runs/paint "7" --steps 100 --guidance 3 --sampler ddpm --seed 5 -o sevens.png
    """
    from regard.tasks.diffusion.model import ImageGenerator

    if output.suffix not in SUFFIXES:
        raise RegardError(f"{output}: pictures are written as {' or '.join(SUFFIXES)}")
    generator = ImageGenerator.load(run)
    options = generator.options(steps=steps, guidance=guidance, sampler=sampler, merge=merge)
    painted = generator.paint(prompts, count, seed, options)
    painted.save(output)
    pictures = len(prompts) * count
    if as_json:
        summary = {"picture": str(output), "prompts": prompts, "pictures": pictures, "seconds": painted.seconds}
        print(json.dumps(summary, ensure_ascii=False))
    else:
        print(f"{output}: {pictures} pictures in {painted.seconds:.1f} s")
