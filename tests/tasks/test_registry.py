"""Every task is declared once, and what it declares is there."""

import shlex
from pathlib import Path
from typing import get_args

import pytest
import typer.main

from regard.cli.main import cli
from regard.config.recipes import Recipe
from regard.server.model_registry import SERVED_MODELS
from regard.tasks.registry import BY_NAME, SPECS, load_recipe, spec_of
from regard.tasks.spec import TaskSpec

NO_ATTENTION = ("rnn", "ngram", "paint", "kernel")
"""Recipes of models that `regard look` cannot show."""


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


@pytest.mark.parametrize(
    "name",
    ["picturebook", "bahdanau", "rnn", "gpt", "ngram", "sentiment", "ner", "qa", "vit", "paint", "kernel"],
)
def test_the_next_commands_are_commands_with_their_arguments(name: str) -> None:
    recipe = load_recipe(name)
    spec = spec_of(recipe)
    commands = [shlex.split(line) for line in spec.next_commands(Path("my runs/one"), recipe)]
    known = typer.main.get_command(cli).commands  # type: ignore[attr-defined]
    for program, command, *arguments in commands:
        assert program == "regard"
        assert arguments[0] == "my runs/one"
        known[command].make_context(command, [*arguments], resilient_parsing=False)
    names = [command for _, command, *_ in commands]
    assert names == [
        *spec.commands[:1],
        *(["look"] if name not in NO_ATTENTION else []),
        *(["serve"] if spec.routes else []),
    ]
