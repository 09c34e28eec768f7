"""Recipes: the base class of each task's recipe, and reading their TOML files."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import Any

from regard.config.schema import copy_tables, describe, format_value, suggest, to_toml
from regard.errors import RecipeError

EXTENDS = "extends"


@dataclass(frozen=True)
class Recipe:
    """All settings of a run, one field per section; each task defines a subclass."""

    task: str

    def to_toml(self) -> str:
        """The resolved recipe as TOML that loads as an equal recipe."""
        return to_toml(self)


def shipped_recipes() -> list[str]:
    """Names of the recipes in the package."""
    folder = resources.files("regard") / "recipes"
    return sorted(
        entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")
    )


def comments(name: str) -> list[str]:
    """The comment at the top of a recipe: its first line says what it is. Empty without one."""
    shipped = resources.files("regard") / "recipes" / f"{name}.toml"
    text = (shipped if name in shipped_recipes() else Path(name)).read_text("utf-8")
    return [line.removeprefix("#").removeprefix(" ") for line in takewhile(is_comment, text.splitlines())]


def is_comment(line: str) -> bool:
    return line.startswith("#")


def read_table(name: str) -> dict[str, Any]:
    """Read a shipped recipe or a TOML file, merged over the recipes that it extends.

    Raises:
        RecipeError: A file is missing or is not TOML, or recipes extend each other in a circle.
    """
    table, chain = read_file(name), [name]
    while EXTENDS in table:
        try:
            parent = resolve_parent(table.pop(EXTENDS), chain[-1])
            base = read_file(parent)
        except RecipeError as problem:
            raise RecipeError(f"{' -> '.join(chain)}: extends: {problem}") from None
        if recipe_id(parent) in map(recipe_id, chain):
            raise RecipeError(
                f"{' -> '.join([*chain, parent])}: extends: these recipes extend each other in a circle; "
                "one of them must extend none"
            )
        chain.append(parent)
        table = merge(base, table)
    return table


def read_file(name: str) -> dict[str, Any]:
    """Read one recipe without those it extends."""
    if name in shipped_recipes():
        shipped = resources.files("regard") / "recipes" / f"{name}.toml"
        return tomllib.loads(shipped.read_text("utf-8"))
    path = Path(name)
    if not name.endswith(".toml") and not path.exists():
        raise unknown_recipe(name)
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as problem:
        raise RecipeError(f"recipe {name!r} cannot be read: {problem.strerror or problem}") from None
    except UnicodeDecodeError as problem:
        raise RecipeError(f"recipe {name!r} is not UTF-8 text: bad byte at offset {problem.start}") from None
    except tomllib.TOMLDecodeError as problem:
        reason = str(problem)
        raise RecipeError(f"recipe {name!r} is not valid TOML: {reason[:1].lower()}{reason[1:]}") from None


def resolve_parent(extends: Any, child: str) -> str:
    """The recipe that `child` extends: a shipped recipe, or a file relative to the child's folder."""
    if not isinstance(extends, str):
        raise RecipeError(f"{format_value(extends)} is not {describe(str)}")
    if extends in shipped_recipes():
        return extends
    if not extends.endswith(".toml") or "\0" in extends:
        raise unknown_recipe(extends)
    return str(Path(child).parent / extends)


def unknown_recipe(name: str) -> RecipeError:
    allowed = suggest(name, shipped_recipes(), "regard recipes")
    return RecipeError(f"there is no recipe {name!r}; {allowed}, or the path of a .toml file")


def recipe_id(name: str) -> str | Path:
    """An identifier that does not depend on how the path is written."""
    return name if name in shipped_recipes() else Path(name).resolve()


def merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Tables merged recursively; values of `overrides` win."""
    merged = copy_tables(base)
    for key, value in overrides.items():
        inherited = merged.get(key)
        if isinstance(inherited, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(inherited, value)
        else:
            merged[key] = value
    return merged
