"""Hooks of mkdocs: code from the source, commands apart from outputs, formulas as MathML, the navigation."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import latex2mathml.converter
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

from blocks import FENCE, commands, read_info
from sources import source_of, wrap_docstrings

from regard.viz.attention_maps import AttentionMaps
from regard.viz.html_page import attention_page

SECTIONS = {
    "Quick start": "quickstart",
    "Guide": "guide",
    "How to": "how-to",
    "Reference": "reference",
    "Design notes": "design",
}
"""Folders of pages in the order of the site; every Markdown file in them is a page."""

FIRST = [
    "en.md",
    "your-own-corpus.md",
    *("commands.md", "recipes.md", "python.md", "nn.md", "run-folder.md", "platforms.md", "measured.md"),
]
"""Pages that come first in their folder, in this order; the others follow by file name."""


def on_config(config: Any) -> Any:
    """Build the navigation from the folders."""
    docs = Path(config["docs_dir"])
    config["nav"] = [{"Overview": "index.md"}]
    for title, folder in SECTIONS.items():
        pages = sorted((docs / folder).glob("*.md"), key=order)
        config["nav"].append({title: [str(path.relative_to(docs)) for path in pages]})
    return config


def order(page: Path) -> tuple[int, str]:
    return (FIRST.index(page.name) if page.name in FIRST else len(FIRST)), page.name


def on_files(files: Any, config: Any) -> Any:
    """Draw the attention weights of `regard look -o NAME.json` as the page of `regard look -o NAME.html`."""
    for path in sorted(Path(config["docs_dir"], "pictures").glob("*.json")):
        maps = AttentionMaps.from_json(json.loads(path.read_text("utf-8")))
        name = f"pictures/{path.stem}.html"
        files.append(File.generated(config, name, content=attention_page(maps)))
    return files


LIVE = re.compile(r"<!-- live: (?P<page>[\w./-]+)\.json -->\n\n!\[(?P<title>[^]]*)\]\([^)]*\)")
"""A picture of attention, and the file with its weights: the site shows the page of `regard look` instead."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    return FENCE.sub(render_fence, LIVE.sub(render_live, markdown))


def render_live(picture: "re.Match[str]") -> str:
    address, title = f"{picture['page']}.html", html.escape(picture["title"])
    frame = f'<iframe class="live" src="{address}" title="{title}" loading="lazy"></iframe>'
    return f'{frame}\n<p class="caption"><a href="{address}">Open the page in the whole window</a></p>'


def render_fence(fence: "re.Match[str]") -> str:
    """A fence as Markdown for the site."""
    kind, settings = read_info(fence["info"])
    text = fence["text"].rstrip("\n")
    if kind == "source":
        return "\n\n".join(listing(name) for name in text.split())
    if kind == "console":
        rendered = console(text)
    elif kind == "output":
        rendered = output(text)
    else:
        title = f' title="{settings["file"]}"' if "file" in settings else ""
        rendered = f"```{kind}{title}\n{text}\n```"
    if "not-run" in settings:  # for maintainers only
        rendered += f"\n\n<!-- not run by the tests: {html.escape(settings['not-run'])} -->\n"
    if "example" in settings:
        rendered += '\n<p class="caption">Example output; yours will differ.</p>\n'
    return rendered


def console(text: str) -> str:
    """Commands without their prompt, so that they can be copied and pasted, each followed by its output."""
    parts: list[str] = []
    lines: list[str] = []
    for command in commands(text):
        lines.append(command.text)
        if command.expected.strip():
            parts += [shell(lines), output(command.expected)]
            lines = []
    return "\n\n".join([*parts, *([shell(lines)] if lines else [])])


def shell(lines: list[str]) -> str:
    return "\n".join(["``` { .bash .commands }", *lines, "```"])


def output(text: str) -> str:
    """What a command or a code block printed; it has no copy button."""
    return f"``` {{ .text .output .no-copy }}\n{text}\n```"


FOLDED_FROM = 31
"""Lines from which a listing is folded."""
LINE = 88
"""Characters in a line of a listing; more do not fit a laptop's window."""


def listing(name: str) -> str:
    """Source code as Markdown, in narrower lines than in its file; a long listing is folded."""
    formatter = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", str(LINE), "-"]
    code = subprocess.run(formatter, input=source_of(name), capture_output=True, text=True, check=True).stdout
    code = wrap_docstrings(code, LINE)
    lines = len(code.splitlines())
    fence = f'```python title="{name}"\n{code}\n```'
    if lines < FOLDED_FROM:
        return fence
    summary = f"<summary><code>{name}</code>, {lines} lines</summary>"
    return f'<details markdown="1">\n{summary}\n\n{fence}\n\n</details>'


FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Formulas as MathML, which browsers render without scripts or network."""
    return FORMULA.sub(to_mathml, content)


def to_mathml(formula: "re.Match[str]") -> str:
    latex = html.unescape(formula[2]).strip()
    display = "inline" if formula[1] == "span" else "block"
    mathml = latex2mathml.converter.convert(latex, display=display)
    mathml = re.sub(r"<mo>(\w{2,})</mo>", r"<mi>\1</mi>", mathml)  # names: no space before a parenthesis
    return f'<div class="formula">{mathml}</div>' if display == "block" else mathml
