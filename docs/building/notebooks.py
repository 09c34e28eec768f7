"""The chapters of the guide as notebooks: `python docs/building/notebooks.py --out build/notebooks`.

Code becomes a cell to run, commands a cell for bash, and files are written. What a page says a block prints is
left out: the notebook prints it itself.
"""

import argparse
import re
import shutil
from pathlib import Path

import nbformat
from blocks import FENCE, commands, read_info
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from sources import source_of

ROOT = Path(__file__).parents[2]
CHAPTERS = ROOT / "docs" / "guide"
PICTURE = re.compile(r"\(\.\./pictures/([\w.-]+)\)")
LINK = re.compile(r"\((\.\./[\w/-]+|\d\d-[\w-]+)\.md(#[\w-]+)?\)")
HIDDEN = re.compile(r"<!--.*?-->\n?|</?details[^>]*>\n?|</?summary>", re.DOTALL)


def notebook(page: Path) -> nbformat.NotebookNode:
    """A page as a notebook."""
    text = page.read_text("utf-8")
    cells, last = [], 0
    for found in FENCE.finditer(text):
        cells += prose(text[last : found.start()])
        cells += cell_of(found)
        last = found.end()
    cells += prose(text[last:])
    made = new_notebook(cells=cells)
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for number, cell in enumerate(made.cells):
        cell.id = f"cell-{number}"  # the same page, the same notebook
    return made


def prose(text: str) -> list[nbformat.NotebookNode]:
    """Text between blocks, with its pictures beside the notebook and links that lead to other notebooks."""
    text = PICTURE.sub(r"(pictures/\1)", HIDDEN.sub("", text))
    text = LINK.sub(lambda link: f"({Path(link[1]).name}.ipynb)", text)
    return [new_markdown_cell(text.strip())] if text.strip() else []


def cell_of(found: "re.Match[str]") -> list[nbformat.NotebookNode]:
    """A fence as a cell: run, written to a file, or shown."""
    kind, settings = read_info(found["info"])
    text = found["text"].rstrip("\n")
    if kind in ("output", "generated"):
        return []
    if kind == "source":
        shown = "\n\n".join(source_of(name) for name in text.split())
        return [new_markdown_cell(f"```python\n{shown}\n```")]
    if "not-run" in settings:
        return [new_markdown_cell(f"```\n{text}\n```")]
    if "file" in settings:
        return [new_code_cell(f"%%writefile {settings['file']}\n{text}")]
    if kind == "console":
        ending = " || true" if "fails" in settings else ""
        typed = "\n".join(each.text + ending for each in commands(text))
        return [new_code_cell(f"%%bash\n{typed}")]
    return [new_code_cell(text)]


def write_all(folder: Path) -> list[Path]:
    """Every chapter, and the pictures they show."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pictures", dirs_exist_ok=True)
    written = []
    for page in sorted(CHAPTERS.glob("*.md")):
        path = folder / f"{page.stem}.ipynb"
        nbformat.write(notebook(page), path)
        written.append(path)
    return written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/notebooks"))
    for path in write_all(parser.parse_args().out):
        print(path)
