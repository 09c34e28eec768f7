"""`regard recipes`: the shipped recipes, and the keys of one."""

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from regard.cli.arguments import AsJson

if TYPE_CHECKING:
    from regard.config.recipes import Recipe

CORPUS_INSIDE = "nothing: the corpus is in the package"
REQUIRED = "(required)"
FULL_WIDTH = 160
"""Columns of the list where no terminal limits them."""


def recipe_names(incomplete: str) -> list[str]:
    """Shell completion of a recipe's name."""
    from regard.config.recipes import shipped_recipes

    return [name for name in shipped_recipes() if name.startswith(incomplete)]


def recipes(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE", help="Show the keys of this recipe or TOML file.", autocompletion=recipe_names
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the recipes: what each trains, the data it needs and its budget; or the keys of one recipe.

    Examples:

    regard recipes

    regard recipes picturebook

    regard train picturebook train.minutes=1
    """
    from regard.config.recipes import comments

    if recipe is None:
        if as_json:
            print(json.dumps([dataclasses.asdict(shipped) for shipped in shipped_summaries()]))
        else:
            print_recipes()
            print("Train one: regard train NAME [KEY=VALUE]...    Its keys: regard recipes NAME")
        return
    keys = list(keys_of(resolved(recipe)))
    if as_json:
        print(json.dumps([dataclasses.asdict(key) for key in keys]))
        return
    for line in comments(recipe):
        print(f"# {line}".rstrip())
    print_keys(keys)


@dataclasses.dataclass(frozen=True)
class RecipeSummary:
    """What the list says of a recipe."""

    name: str
    summary: str
    needs: str
    budget: str


def print_recipes() -> None:
    """One row per recipe; as wide as the terminal, or in full for a file or a pipe."""
    from rich.console import Console
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", "what it is", "needs", "budget"):
        grid.add_column(heading, no_wrap=heading in ("name", "budget"), overflow="fold")
    for recipe in shipped_summaries():
        grid.add_row(*dataclasses.astuple(recipe))
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = FULL_WIDTH
    with console.capture() as text:
        console.print(grid)
    print("\n".join(line.rstrip() for line in text.get().splitlines()))


def shipped_summaries() -> list[RecipeSummary]:
    """All shipped recipes; those that need no data come first."""
    from regard.config.recipes import shipped_recipes

    summaries = [summarize(name) for name in shipped_recipes()]
    return sorted(summaries, key=lambda recipe: (not recipe.needs.startswith("nothing"), recipe.name))


def summarize(name: str) -> RecipeSummary:
    from regard.config.recipes import comments
    from regard.limits import number_text

    train: Any = getattr(resolved(name), "train", None)
    limits = [(unit, getattr(train, unit, None)) for unit in ("minutes", "steps", "epochs")]
    budget = " or ".join(
        f"{number_text(limit)} {unit.removesuffix('s') if limit == 1 else unit}"
        for unit, limit in limits
        if limit is not None
    )
    return RecipeSummary(name, comments(name)[0].rstrip("."), needed_data(name), budget)


def needed_data(name: str) -> str:
    """The data keys that a recipe leaves to its user, from its own data section and the keys of its task."""
    from regard.config.recipes import read_table
    from regard.tasks.registry import BY_NAME

    table = read_table(name)
    data = table.get("data", {})
    section = get_type_hints(BY_NAME[table["task"]].recipe)["data"]
    keys = {field.name: field.default for field in dataclasses.fields(section)}
    corpus = data.get("corpus", keys.get("corpus"))
    if corpus == "files":
        return "data.source=FILE data.target=FILE"
    if corpus == "picturebook":
        return CORPUS_INSIDE
    if corpus is not None:
        return "a download, or data.path=FOLDER"
    if "train" in keys and "train" not in data:
        return "data.train=FILE"
    if "train" in data:
        return f"data.path=FOLDER with {data['train']}"
    return "nothing: the data are generated" if "samples" in keys else "data.path=FOLDER"


def resolved(name: str) -> "Recipe":
    """The recipe, with a placeholder for the files that only a user can name."""
    from regard.config.recipes import read_table
    from regard.tasks.registry import load_recipe

    needs_source = read_table(name).get("data", {}).get("corpus") == "files"
    return load_recipe(name, {"data.source": REQUIRED, "data.target": REQUIRED} if needs_source else {})


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of a recipe, its value there, and what it allows."""

    key: str
    value: Any
    allowed: str


def keys_of(section: Any, path: str = "", kinds: str = "") -> Iterator[Key]:
    """The keys of a recipe, section by section; `kinds` is what the first key of a section allows."""
    from regard.config.schema import describe, join_keys, tag_value

    hints = get_type_hints(type(section), include_extras=True)
    for index, field in enumerate(dataclasses.fields(section)):
        value, hint, key = getattr(section, field.name), hints[field.name], join_keys(path, field.name)
        if dataclasses.is_dataclass(value):
            choices = [tag_value(option) for option in get_args(hint) if dataclasses.is_dataclass(option)]
            yield from keys_of(value, key, f"one of {', '.join(choices)}" if choices else "")
        else:
            yield Key(key, value, kinds if kinds and index == 0 else describe(hint))


def print_keys(keys: list[Key]) -> None:
    """One line per key: `train.steps = 200`, and what is allowed as a comment."""
    from regard.config.schema import toml_value

    values = ["not set" if key.value is None else toml_value(key.value) for key in keys]
    width = max(len(key.key) for key in keys)
    for key, value in zip(keys, values, strict=True):
        print(f"{key.key:{width}} = {value:16}  # {key.allowed}".rstrip())
