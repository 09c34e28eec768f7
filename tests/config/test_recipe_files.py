"""Recipes that extend others: merged key by key; the extending recipe wins; invalid parents are refused."""

import tomllib
from pathlib import Path

import pytest

from regard.config.recipes import merge, read_file, read_table
from regard.errors import RecipeError
from regard.tasks.registry import load_recipe

BASE = 'task = "kernel-regression"\n[train]\nsteps = 7\nlr = 0.5\n[data]\nsamples = 30\n'


def write(folder: Path, **recipes: str) -> None:
    for name, text in recipes.items():
        (folder / f"{name}.toml").write_text(text, "utf-8")


def test_keys_are_merged_and_the_later_wins(tmp_path: Path) -> None:
    write(
        tmp_path,
        base=BASE,
        middle='extends = "base.toml"\n[train]\nsteps = 8\nseed = 5\n',
        mine='extends = "middle.toml"\n[train]\nsteps = 9\n[model]\nsharpness = 2.0\n',
    )
    assert read_table(str(tmp_path / "mine.toml")) == {
        "task": "kernel-regression",
        "train": {"steps": 9, "lr": 0.5, "seed": 5},
        "data": {"samples": 30},
        "model": {"sharpness": 2.0},
    }
    recipe = load_recipe(str(tmp_path / "mine.toml"), {"train.steps": 10})
    assert recipe.train.steps == 10
    assert load_recipe(str(tmp_path / "base.toml")).train.steps == 7


def test_merging_leaves_both_tables_alone() -> None:
    base, over = {"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"b": 2}, "d": {"e": 3}}
    assert merge(base, over) == {"a": {"b": 2, "c": [1]}, "d": {"e": 3}}
    assert merge(base, {"a": 3}) == {"a": 3, "d": 1}
    assert (base, over) == ({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"b": 2}, "d": {"e": 3}})


def test_a_file_extends_a_shipped_recipe_and_files_relative_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    write(tmp_path, base='extends = "kernel"\n[train]\nsteps = 7\n')
    write(tmp_path / "deep", mine='extends = "../base.toml"\n')
    monkeypatch.chdir(tmp_path / "deep")
    for name in ("mine.toml", str(tmp_path / "deep" / "mine.toml")):
        assert load_recipe(name) == load_recipe("kernel", {"train.steps": 7})


def test_a_file_may_have_the_name_of_the_shipped_recipe_that_it_extends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, kernel='extends = "kernel"\n[train]\nsteps = 7\n')
    monkeypatch.chdir(tmp_path)
    assert load_recipe("kernel.toml").train.steps == 7


def test_the_resolved_recipe_extends_nothing() -> None:
    assert "extends" in read_file("luong-dot")
    assert "extends" not in tomllib.loads(load_recipe("luong-dot").to_toml())


def refused(folder: Path, name: str = "mine") -> str:
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(folder / f"{name}.toml"))
    return str(caught.value).replace(f"{folder}/", "")


def test_a_circle_is_refused_with_its_chain(tmp_path: Path) -> None:
    write(tmp_path, mine='extends = "a.toml"', a='extends = "b.toml"', b='extends = "./a.toml"')
    assert refused(tmp_path) == (
        "mine.toml -> a.toml -> b.toml -> a.toml: extends: these recipes extend each other in a circle; "
        "one of them must extend none"
    )
    write(tmp_path, mine='extends = "mine.toml"')
    assert refused(tmp_path).startswith("mine.toml -> mine.toml: extends: these recipes")


WRONG_PARENTS = [
    ('"kernle"', "mine.toml: extends: there is no recipe 'kernle'; did you mean 'kernel'? allowed: "),
    ('"gone.toml"', "mine.toml: extends: recipe 'gone.toml' cannot be read: No such file or directory"),
    ('"broken.toml"', "mine.toml: extends: recipe 'broken.toml' is not valid TOML: "),
    ('"child.toml"', "mine.toml -> child.toml: extends: recipe 'gone.toml' cannot be read: No such file"),
    ("5", "mine.toml: extends: 5 is not a string"),
    ('["kernel"]', 'mine.toml: extends: ["kernel"] is not a string'),
    ('""', "mine.toml: extends: there is no recipe ''; allowed: "),
    ('"a\\u0000.toml"', "mine.toml: extends: there is no recipe 'a\\x00.toml'"),
    (f'"{"a" * 300}.toml"', "cannot be read: File name too long"),
]


@pytest.mark.parametrize(("parent", "sentence"), WRONG_PARENTS, ids=[wrong[:20] for wrong, _ in WRONG_PARENTS])
def test_a_wrong_parent_is_refused_in_a_sentence(tmp_path: Path, parent: str, sentence: str) -> None:
    write(tmp_path, mine=f"extends = {parent}", broken="task = ", child='extends = "gone.toml"')
    assert sentence in refused(tmp_path)


def test_a_wrong_key_is_refused_as_in_any_recipe(tmp_path: Path) -> None:
    write(tmp_path, base=BASE, mine='extends = "base.toml"\n[train]\nstep = 8\n')
    assert refused(tmp_path).startswith("train.step: there is no such key; did you mean 'steps'?")
    with pytest.raises(RecipeError, match="extends: there is no such key"):
        load_recipe("kernel", {"extends": "gpt"})
