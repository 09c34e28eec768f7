"""Every task is declared once, and what it declares is there."""

from typing import get_args

import pytest
import typer.main

from regard.cli.main import cli
from regard.config.recipes import Recipe
from regard.server.model_registry import SERVED_MODELS
from regard.tasks.registry import BY_NAME, SPECS, spec_of
from regard.tasks.spec import TaskSpec


def test_every_recipe_has_one_task() -> None:
    assert len({spec.recipe for spec in SPECS}) == len(SPECS)
    assert all(issubclass(spec.recipe, Recipe) for spec in SPECS)
    assert len(BY_NAME) == len(SPECS)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_task_is_found_by_its_recipe(spec: TaskSpec) -> None:
    hint = spec.recipe.__dataclass_fields__["task"].type
    assert get_args(hint) == (spec.name,)
    assert spec_of(type("Made", (), {"task": spec.name})()) is spec


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_its_commands_and_routes_are_there(spec: TaskSpec) -> None:
    assert set(spec.commands) <= set(typer.main.get_command(cli).commands)  # type: ignore[attr-defined]
    assert set(spec.routes) <= set(SERVED_MODELS)
