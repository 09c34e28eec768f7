"""`regard train`: train a recipe into a run folder."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import AsJson


def recipe_names(incomplete: str) -> list[str]:
    """Shell completion of the first argument: names of shipped recipes."""
    from regard.config.recipes import shipped_recipes

    return [name for name in shipped_recipes() if name.startswith(incomplete)]


def train(
    recipe: Annotated[
        str,
        typer.Argument(help="Name of a shipped recipe, or a TOML file.", autocompletion=recipe_names),
    ],
    assignments: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Override recipe values.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Output run folder.", show_default="runs/RECIPE")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint in --out.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model with a recipe.

    Examples:

    regard train picturebook

    regard train translation data.source=mine.de data.target=mine.en train.minutes=30 --out runs/mine
    """
    from regard.cli.terminal import Terminal, log_next_commands, print_summary
    from regard.config.schema import parse_assignments
    from regard.tasks import train as train_recipe

    overrides = parse_assignments(assignments or [])
    with Terminal() as terminal:
        run = train_recipe(recipe, out, overrides=overrides, resume=resume, listener=terminal)
    if run is None:  # all processes but the first
        return
    if as_json:
        print(json.dumps(run.as_json()))
    else:
        print_summary(run.summary())
        log_next_commands(run.folder)
