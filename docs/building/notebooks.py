"""The chapters of the guide as notebooks: `python docs/building/notebooks.py --out build/notebooks`.

Python blocks become code cells, commands bash cells, and files `%%writefile` cells. Expected output is left
out: running the notebook prints it.
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
    cells, end = [], 0
    for fence in FENCE.finditer(text):
        cells += markdown_cells(text[end : fence.start()])
        cells += cells_of_fence(fence)
        end = fence.end()
    cells += markdown_cells(text[end:])
    result = new_notebook(cells=cells)
    result.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for number, cell in enumerate(result.cells):
        cell.id = f"cell-{number}"  # deterministic: the same page gives the same notebook
    return result


def markdown_cells(text: str) -> list[nbformat.NotebookNode]:
    """Text between blocks, with picture paths and links rewritten for the notebooks' folder."""
    text = PICTURE.sub(r"(pictures/\1)", HIDDEN.sub("", text))
    text = LINK.sub(lambda link: f"({Path(link[1]).name}.ipynb)", text)
    return [new_markdown_cell(text.strip())] if text.strip() else []


def cells_of_fence(fence: "re.Match[str]") -> list[nbformat.NotebookNode]:
    """A fence as a cell: code, file or Markdown."""
    kind, settings = read_info(fence["info"])
    text = fence["text"].rstrip("\n")
    if kind in ("output", "generated"):
        return []
    if kind == "source":
        code = "\n\n".join(source_of(name) for name in text.split())
        return [new_markdown_cell(f"```python\n{code}\n```")]
    if "not-run" in settings:
        return [new_markdown_cell(f"```\n{text}\n```")]
    if "file" in settings:
        return [new_code_cell(f"%%writefile {settings['file']}\n{text}")]
    if kind == "console":
        ending = " || true" if "fails" in settings else ""
        script = "\n".join(command.text + ending for command in commands(text))
        return [new_code_cell(f"%%bash\n{script}")]
    return [new_code_cell(text)]


def write_all(folder: Path) -> list[Path]:
    """Write all chapters as notebooks, with their pictures."""
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
