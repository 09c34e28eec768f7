"""Commands, files and keys that a page names in a sentence or a table: they are not run, but must exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from blocks import FENCE, pages
from support.page_run import ROOT

from regard.cli.main import command_tree
from regard.config.recipes import shipped_recipes
from regard.config.schema import parse_assignments
from regard.tasks.registry import load_recipe

COMMANDS = command_tree()
REQUIRED = {
    "translation": ["data.source=a", "data.target=b"],
    **{
        name: ["data.train=a"]
        for name in (
            "sentiment",
            "inference",
            "ner",
            "qa",
            "pretraining",
            "gpt",
            "ngram",
            "gpt-sentiment",
            "gpt-inference",
        )
    },
}
"""Required settings of recipes, added to those that a page shows."""


def spans(page: Path) -> Iterator[str]:
    """Text in backticks outside of fenced blocks."""
    text = FENCE.sub("", page.read_text("utf-8"))
    yield from (span.replace("\\|", "|") for span in re.findall(r"`([^`\n]+)`", text))


def problems(span: str) -> Iterator[str]:
    words = span.split()
    if words[0] == "regard" and len(words) > 1:
        first = re.split(r" [|>] ", span.replace("=...", "=a").replace("...", "ANY"))[0]
        yield from problems_of_command(shlex.split(first)[1:])
    elif words[0] == "make" and len(words) == 2 and f"\n{words[1]}:" not in (ROOT / "Makefile").read_text():
        yield f"{span}: no such target"
    for path in re.findall(r"\b(?:tests|src|docs|benchmarks|examples)/[\w/.-]+\.\w+", span):
        if not (ROOT / path).exists():
            yield f"{span}: there is no {path}"


def problems_of_command(words: list[str]) -> Iterator[str]:
    command, name = COMMANDS, "regard"
    while words and getattr(command, "commands", None):
        if words[0].isupper() or words[0].startswith("-") or not words[0].isascii():
            return  # a placeholder, or an option of regard itself
        name = f"{name} {words[0]}"
        if words[0] not in command.commands:
            yield f"there is no {name}"
            return
        command = command.commands[words.pop(0)]
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)} | {
        "--help",
        "-h",
    }
    yield from (f"{name} has no {word}" for word in words if word.startswith("-") and word not in known)
    if name == "regard train" and words:
        yield from problems_of_recipe(words[0], [word for word in words[1:] if "=" in word])


def problems_of_recipe(recipe: str, keys: list[str]) -> Iterator[str]:
    if recipe.isupper() or recipe.endswith(".toml"):
        return
    if recipe not in shipped_recipes():
        yield f"there is no recipe {recipe}"
        return
    try:
        load_recipe(recipe, parse_assignments([*REQUIRED.get(recipe, []), *keys]))
    except Exception as problem:
        yield f"regard train {recipe} {' '.join(keys)}: {problem}"


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    assert [problem for span in spans(page) for problem in problems(span)] == []


def test_the_overview_lists_every_recipe() -> None:
    overview = (ROOT / "docs" / "index.md").read_text("utf-8").split("## Recipes")[1]
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", overview, re.MULTILINE)) == shipped_recipes()


@pytest.mark.parametrize(
    "wrong",
    [
        "regard trian picturebook", "regard train picturebok", "regard train picturebook train.minuts=3",
        "regard show scalling", "regard serve RUN --prot 3", "make tset", "tests/test_nothing.py",
    ],
)  # fmt: skip
def test_what_does_not_exist_is_found(wrong: str) -> None:
    assert len(list(problems(wrong))) == 1
