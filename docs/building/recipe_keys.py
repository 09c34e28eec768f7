"""Tables of all recipe keys, generated from the configuration dataclasses."""

import ast
import dataclasses
import inspect
import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin, get_type_hints

from regard.config.schema import describe, toml_value
from regard.tasks.registry import SPECS


def all_recipes() -> str:
    """Every task with its sections as Markdown; a section shared by several tasks is listed once."""
    lines: list[str] = []
    task_of_section: dict[type, str] = {}
    for recipe in (spec.recipe for spec in SPECS):
        [task] = get_args(get_type_hints(recipe)["task"])
        lines += [f'## task = "{task}"', "", recipe.__doc__ or "", ""]
        for section, shape in sections(recipe):
            heading = f"[{section}]" if "kind" not in fields(shape) else f"[{section}] {kind_of(shape)}"
            if shape in task_of_section:
                lines += [f'`{heading}`: as in `task = "{task_of_section[shape]}"`.', ""]
                continue
            task_of_section[shape] = task
            lines += [f"### `{heading}`", "", (shape.__doc__ or "").split("\n\n")[0], "", table_of(shape), ""]
    return "\n".join(lines)


def sections(recipe: type) -> Iterator[tuple[str, type]]:
    """Name and dataclass of each section of a recipe; a union yields each of its members."""
    for name, hint in get_type_hints(recipe).items():
        kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        for kind in kinds:
            if dataclasses.is_dataclass(kind):
                yield name, kind  # type: ignore[misc]


def fields(shape: Any) -> dict[str, "dataclasses.Field[Any]"]:
    return {field.name: field for field in dataclasses.fields(shape)}


def kind_of(shape: type) -> str:
    return f'kind = "{get_args(get_type_hints(shape)["kind"])[0]}"'


def table_of(shape: Any) -> str:
    """Key, allowed values, default, and the docstring of the field."""
    hints = get_type_hints(shape, include_extras=True)
    meanings = {name: text for base in reversed(shape.__mro__) for name, text in field_docs(base).items()}
    rows = ["| key | allowed | default | meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{name}` | {describe(hints[name])} | {default(field)} | {meanings.get(name, '')} |"
        for name, field in fields(shape).items()
    ]
    return "\n".join(rows)


def default(field: "dataclasses.Field[Any]") -> str:
    if field.default is dataclasses.MISSING:
        return "required" if field.default_factory is dataclasses.MISSING else ""
    return "none" if field.default is None else f"`{toml_value(field.default)}`"


def field_docs(shape: type) -> dict[str, str]:
    """The docstring under each field of a dataclass."""
    if not dataclasses.is_dataclass(shape):
        return {}
    [definition] = ast.parse(inspect.getsource(shape)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in zip(definition.body, definition.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }
