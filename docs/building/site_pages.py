"""Hooks of mkdocs: generated fences, formulas as MathML, and the navigation."""

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
"""Folders of pages in the order of the site; every Markdown file in them is a page."""

FIRST = {"en.md", "your-own-corpus.md", "commands.md"}
"""Pages that come first in their folder."""


def on_config(config: Any) -> Any:
    """Build the navigation from the folders, sorted by file name."""
    docs = Path(config["docs_dir"])
    config["nav"] = [{"Overview": "index.md"}]
    for title, folder in SECTIONS.items():
        pages = sorted((docs / folder).glob("*.md"), key=lambda path: (path.name not in FIRST, path.name))
        config["nav"].append({title: [str(path.relative_to(docs)) for path in pages]})
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    return FENCE.sub(render_fence, markdown)


def render_fence(fence: "re.Match[str]") -> str:
    """A fence as Markdown for the site: code from the source, generated parts, captions."""
    kind, settings = read_info(fence["info"])
    text = fence["text"].rstrip("\n")
    if kind == "generated":
        return generated(text)
    if kind == "source":
        return "\n\n".join(listing(name) for name in text.split())
    title = f' title="{settings["file"]}"' if "file" in settings else ""
    rendered = f"```{'text' if kind == 'output' else kind}{title}\n{text}\n```"
    if "not-run" in settings:  # for maintainers only
        rendered += f"\n\n<!-- not run by the tests: {html.escape(settings['not-run'])} -->\n"
    if "example" in settings:
        rendered += '\n<p class="caption">Example output; yours will differ.</p>\n'
    return rendered


FOLDED_FROM = 31
"""Lines from which a listing is folded."""


def listing(name: str) -> str:
    """Source code as Markdown; a long listing is folded."""
    code = source_of(name)
    lines = len(code.splitlines())
    fence = f'```python title="{name}"\n{code}\n```'
    if lines < FOLDED_FROM:
        return fence
    summary = f"<summary><code>{name}</code>, {lines} lines</summary>"
    return f'<details markdown="1">\n{summary}\n\n{fence}\n\n</details>'


def generated(content: str) -> str:
    match content.split():
        case ["commands"]:
            return all_commands()
        case ["recipes"]:
            return all_recipes()
        case ["package", name]:
            return package(name)
    raise ValueError(f"no generator for {content!r}")


FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Formulas as MathML, which browsers render without scripts or network."""
    return FORMULA.sub(to_mathml, content)


def to_mathml(formula: "re.Match[str]") -> str:
    latex = html.unescape(formula[2]).strip()
    display = "block" if formula[1] == "div" else "inline"
    return str(latex2mathml.converter.convert(latex, display=display))
