"""What mkdocs calls while it builds the site: fences are filled in, formulas set, the order of pages found."""

import html
import re
import sys
from pathlib import Path
from typing import Any

import latex2mathml.converter

sys.path.insert(0, str(Path(__file__).parent))

from blocks import FENCE, read_info
from command_pages import all_commands
from module_pages import package
from recipe_keys import all_recipes
from sources import source_of

SECTIONS = {
    "Quick start": "quickstart",
    "Guide": "guide",
    "How to": "how-to",
    "Reference": "reference",
    "Design notes": "design",
}
"""Folders of pages in the order of the site; a page is added to one by putting its file there."""

FIRST = {"en.md", "your-own-corpus.md", "commands.md"}
"""Pages that come before the others of their folder, whatever their names."""


def on_config(config: Any) -> Any:
    """The navigation is what lies in the folders, by file name."""
    docs = Path(config["docs_dir"])
    config["nav"] = [{"Overview": "index.md"}]
    for title, folder in SECTIONS.items():
        found = sorted((docs / folder).glob("*.md"), key=lambda path: (path.name not in FIRST, path.name))
        config["nav"].append({title: [str(path.relative_to(docs)) for path in found]})
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    return FENCE.sub(filled_in, markdown)


def filled_in(found: "re.Match[str]") -> str:
    """A fence as the site shows it: code from the source, generated parts, and settings as words."""
    kind, settings = read_info(found["info"])
    text = found["text"].rstrip("\n")
    if kind == "generated":
        return generated(text)
    if kind == "source":
        return "\n\n".join(f'```python title="{name}"\n{source_of(name)}\n```' for name in text.split())
    title = f' title="{settings["file"]}"' if "file" in settings else ""
    shown = f"```{'text' if kind == 'output' else kind}{title}\n{text}\n```"
    if "not-run" in settings:
        shown += f'\n<p class="not-run">Not run by the tests: {html.escape(settings["not-run"])}.</p>\n'
    return shown


def generated(what: str) -> str:
    match what.split():
        case ["commands"]:
            return all_commands()
        case ["recipes"]:
            return all_recipes()
        case ["package", name]:
            return package(name)
    raise ValueError(f"nothing is generated as {what!r}")


FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Formulas as MathML, which browsers set by themselves: no script, no network."""
    return FORMULA.sub(set_formula, content)


def set_formula(found: "re.Match[str]") -> str:
    latex = html.unescape(found[2]).strip()
    display = "block" if found[1] == "div" else "inline"
    return str(latex2mathml.converter.convert(latex, display=display))
