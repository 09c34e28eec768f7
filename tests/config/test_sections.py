"""Sections that tasks share: every key is declared once, and a task changes its default only."""

import ast
import dataclasses
import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from regard.config.schema import Range, defaults
from regard.errors import RecipeError
from regard.tasks.registry import SPECS


def sections() -> Iterator[type]:
    """Every dataclass that a recipe is made of, with the classes it inherits from."""
    for recipe in (spec.recipe for spec in SPECS):
        for hint in get_type_hints(recipe).values():
            for shape in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,):
                if dataclasses.is_dataclass(shape):
                    yield from (base for base in shape.__mro__ if dataclasses.is_dataclass(base))  # type: ignore[union-attr]


def declared(shape: type) -> dict[str, str]:
    """The keys whose types stand in the source of a dataclass."""
    [definition] = ast.parse(inspect.getsource(shape)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        statement.target.id: ast.unparse(statement.annotation)
        for statement in definition.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }


@pytest.mark.parametrize("shape", sorted(set(sections()), key=lambda shape: shape.__name__))
def test_an_inherited_key_is_declared_again_only_to_narrow_its_choices(shape: type) -> None:
    own = declared(shape)
    for base in shape.__mro__[1:]:
        if dataclasses.is_dataclass(base):
            for key in own.keys() & declared(base).keys() - {"SIZES"}:
                assert (declared(base)[key], own[key].split("[")[0]) == ("str", "Literal"), key


@dataclass(frozen=True)
class Shape:
    name: str
    sides: Annotated[int, Range(at_least=3)] = 3
    kind: Literal["flat", "solid"] = "flat"


def test_defaults_change_and_the_rest_of_the_key_stays() -> None:
    @dataclass(frozen=True)
    @defaults(sides=4, kind="solid")
    class Square(Shape):
        colour: str = "red"

    assert Square("a") == Square("a", 4, "solid", "red")
    assert Shape("a").sides == 3
    assert [field.name for field in dataclasses.fields(Square)] == ["name", "sides", "kind", "colour"]
    hints: dict[str, Any] = get_type_hints(Square, include_extras=True)
    assert hints["sides"] == Annotated[int, Range(at_least=3)]


def test_a_default_that_the_key_does_not_allow_is_refused() -> None:
    with pytest.raises(RecipeError, match="sides: 2 is out of range; allowed is a whole number, at least 3"):
        defaults(sides=2)(type("Line", (Shape,), {}))
    with pytest.raises(KeyError, match="side"):
        defaults(side=4)(type("Square", (Shape,), {}))
