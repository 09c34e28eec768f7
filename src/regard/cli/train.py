"""`regard train`: train a recipe into a run folder."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import AsJson
from regard.cli.recipes import print_recipes, recipe_names
from regard.errors import RegardError


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="Name of a shipped recipe (`regard recipes` lists them), or a TOML file.",
            autocompletion=recipe_names,
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Override recipe values.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Output run folder.", show_default="runs/RECIPE")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint in --out.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model with a recipe, until its budget is used up (train.minutes, train.steps or train.epochs).

    Examples:

    regard train picturebook

    regard train picturebook train.steps=200 model.size=tiny --out runs/tiny

    regard train translation data.source=mine.de data.target=mine.en train.minutes=30 --out runs/mine
    """
    from regard.cli.terminal import Terminal, log_next_commands, print_summary
    from regard.config.schema import parse_assignments
    from regard.tasks import train as train_recipe

    if recipe is None:
        print_recipes()
        raise RegardError("RECIPE is missing; choose one of these, such as: regard train picturebook")
    if "=" in recipe and not recipe.endswith(".toml"):
        raise RegardError(f"{recipe}: the recipe comes before its settings: regard train RECIPE {recipe}")
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
