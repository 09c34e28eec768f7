"""`regard recipes`: what its list says is true of the recipes."""

import json
from pathlib import Path

import pytest
from support.console import Command

import regard
from regard.cli.recipes import recipe_names, shipped_summaries
from regard.config.recipes import shipped_recipes
from regard.errors import RegardError
from regard.tasks.registry import load_recipe

SUMMARIES = {recipe.name: recipe for recipe in shipped_summaries()}
WITHOUT_DATA = [name for name, recipe in SUMMARIES.items() if recipe.needs.startswith("nothing")]


def test_the_table_has_one_row_per_recipe(command: Command) -> None:
    code, out, err = command("recipes")
    assert (code, err) == (0, "")
    heading, *rows, last = out.splitlines()
    assert heading.split("  ")[0] == "name"
    assert {row.split()[0] for row in rows} == set(shipped_recipes())
    assert len(rows) == len(shipped_recipes())
    picturebook = next(row for row in rows if row.startswith("picturebook "))
    assert "Transformer on the bundled corpus" in picturebook
    assert "nothing: the corpus is in the package" in picturebook
    assert picturebook.endswith("2500 steps")
    assert "regard train NAME" in last


def test_recipes_without_data_come_first() -> None:
    assert list(SUMMARIES)[: len(WITHOUT_DATA)] == WITHOUT_DATA
    assert {"kernel", "picturebook", "rnn"} <= set(WITHOUT_DATA)


def test_the_list_as_json_and_in_a_narrow_terminal(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    records = json.loads(command("recipes", "--json").out)
    assert records[0].keys() == {"name", "summary", "needs", "budget"}
    assert {record["name"]: record["budget"] for record in records}["kernel"] == "200 steps"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert all(len(line) < 200 for line in command("recipes").out.splitlines())


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary_is_one_short_line(name: str) -> None:
    recipe = SUMMARIES[name]
    assert 15 < len(recipe.summary) <= 85
    assert not recipe.summary.endswith((".", ":"))
    assert recipe.budget


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_what_needs_no_data_has_a_corpus(name: str) -> None:
    recipe = load_recipe(name)
    assert getattr(recipe.data, "corpus", "picturebook") == "picturebook"
    assert recipe.data.path is None


@pytest.mark.parametrize(
    "name",
    [name for name, recipe in SUMMARIES.items() if name not in WITHOUT_DATA and "download" not in recipe.needs],
)
def test_what_needs_data_is_refused_without_it(name: str, tmp_path: Path) -> None:
    key = SUMMARIES[name].needs.partition("=")[0]
    with pytest.raises(RegardError) as refused:
        regard.train(name, tmp_path / "run")
    assert key in str(refused.value)


def test_the_keys_of_a_recipe_with_values_and_what_is_allowed(command: Command) -> None:
    lines = command("recipes", "picturebook").out.splitlines()
    assert lines[0].startswith("# Transformer on the bundled corpus")
    rows = {line.split()[0]: " ".join(line.split()[2:]) for line in lines if not line.startswith("#")}
    assert rows["train.minutes"] == "not set # a number, above 0"
    assert rows["train.steps"] == "2500 # a whole number, at least 1"
    assert rows["model.kind"] == '"transformer" # one of transformer, rnn, convs2s'
    assert rows["decode.beam"].endswith("# a whole number from 1 to 256")
    assert not any("SIZES" in key for key in rows)
    records = json.loads(command("recipes", "translation", "--json").out)
    assert {"key": "data.source", "value": "(required)", "allowed": "a string"} in records


def test_the_keys_of_a_file_and_a_wrong_name(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('# Mine.\nextends = "kernel"\n[train]\nsteps = 7\n', "utf-8")
    out = command("recipes", "mine.toml").out
    assert out.startswith("# Mine.\n")
    assert "train.steps     = 7" in out
    code, out, err = command("recipes", "kernle")
    assert (code, out) == (2, "")
    assert err.startswith("regard: there is no recipe 'kernle'; did you mean 'kernel'? allowed: kernel, ")
    assert "(all: regard recipes)" in err


def test_completion_offers_the_same_names() -> None:
    assert recipe_names("luong") == ["luong-concat", "luong-dot", "luong-general"]
    assert recipe_names("") == shipped_recipes()


def test_train_without_a_recipe_prints_the_list(command: Command) -> None:
    table = command("recipes").out.rpartition("Train one")[0]
    code, out, err = command("train")
    assert (code, out) == (2, table)
    assert err == "regard: RECIPE is missing; choose one of these, such as: regard train picturebook\n"
