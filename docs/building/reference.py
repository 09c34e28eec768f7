"""Writes the generated parts of docs/reference: `make reference`.

A generated part stands between `<!-- generated: CONTENT -->` and `<!-- end of generated text -->`. It is
committed, so that the reference is complete in the repository. tests/docs/test_reference.py fails when it is
out of date.
"""

import re
from pathlib import Path

from blocks import GENERATED
from command_pages import all_commands
from python_pages import module, objects, package
from recipe_keys import all_recipes

REFERENCE = Path(__file__).parents[1] / "reference"


def with_generated_parts(text: str) -> str:
    """A page with its generated parts as they should be."""
    return GENERATED.sub(lambda part: f"{part['begin']}\n\n{generated(part['content'])}\n\n{part['end']}", text)


def generated(content: str) -> str:
    match content.split():
        case ["commands"]:
            text = all_commands()
        case ["recipes"]:
            text = all_recipes()
        case ["package", name]:
            text = package(name)
        case ["module", name]:
            text = module(name)
        case ["objects", *names]:
            text = objects(names)
        case _:
            raise ValueError(f"no generator for {content!r}")
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


if __name__ == "__main__":
    for page in sorted(REFERENCE.glob("*.md")):
        before = page.read_text("utf-8")
        after = with_generated_parts(before)
        if after != before:
            page.write_text(after, "utf-8")
            print(page)
