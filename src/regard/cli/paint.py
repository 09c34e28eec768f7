"""`regard paint`: images from prompts, with a diffusion model."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.arguments import AsJson, Run
from regard.errors import RegardError

SUFFIXES = (".png", ".svg")


def paint(
    run: Run,
    prompts: Annotated[list[str], typer.Argument(metavar="PROMPT", help="Prompts; each is a row of the grid.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Output image grid, .png or .svg.")] = Path(
        "painted.png"
    ),
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Images per prompt.")] = 8,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Sampling steps.", show_default="the recipe's")
    ] = None,
    guidance: Annotated[
        float | None,
        typer.Option(min=0, help="Classifier-free guidance scale.", show_default="the recipe's"),
    ] = None,
    sampler: Annotated[
        Literal["ddim", "ddpm"] | None,
        typer.Option(help="ddim is deterministic, ddpm adds noise at each step.", show_default="the recipe's"),
    ] = None,
    merge: Annotated[
        float, typer.Option(min=0, max=0.5, help="Fraction of the tokens merged before attention.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Generate images from prompts with a diffusion model, and write them as a grid.

    Examples:

    regard paint runs/paint "a seven" "eine Drei" -o grid.png

    regard paint runs/paint "7" --steps 100 --guidance 3 --sampler ddpm --seed 5 -o sevens.png
    """
    from regard.tasks.diffusion.model import ImageGenerator

    if output.suffix not in SUFFIXES:
        raise RegardError(f"{output}: images are written as {' or '.join(SUFFIXES)}")
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
