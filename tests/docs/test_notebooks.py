"""The chapters as notebooks: written, validated and executed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from blocks import blocks, commands
from support.page_run import STAND_INS, environment, prepare

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

from notebooks import CHAPTERS, notebook, write_all  # noqa: E402

PAGES = sorted(CHAPTERS.glob("*.md"))
QUICK = {"01-kernel-regression"}
"""Run by `make test`; the rest by `make test-slow`."""


def test_every_chapter_becomes_a_valid_notebook_with_its_pictures(tmp_path: Path) -> None:
    written = write_all(tmp_path)
    assert [path.stem for path in written] == [page.stem for page in PAGES]
    for path in written:
        opened = nbformat.read(path, as_version=4)
        nbformat.validate(opened)
        text = "\n".join(cell.source for cell in opened.cells if cell.cell_type == "markdown")
        for picture in [part.split(")")[0] for part in text.split("(pictures/")[1:]]:
            assert (tmp_path / "pictures" / picture).exists(), f"{path.name}: {picture}"
        for link in [part.split(")")[0] for part in text.split("](")[1:]]:
            if link.endswith(".ipynb") and link[:2].isdigit():
                assert (tmp_path / link).exists(), f"{path.name}: {link}"
        assert any(cell.cell_type == "code" for cell in opened.cells)
        assert "<details" not in text


def test_the_same_page_is_the_same_notebook() -> None:
    assert notebook(PAGES[0]) == notebook(PAGES[0])


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[] if page.stem in QUICK else [pytest.mark.slow]) for page in PAGES],
    ids=lambda page: page.stem,
)  # fmt: skip
def test_a_notebook_runs(
    page: Path, tmp_path: Path, programs: Path, cache: Path, stand_in: Callable[[str], Path], monkeypatch
) -> None:
    """In a separate kernel, with stand-ins for runs that take minutes."""
    for name, value in environment(cache, programs).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    prepare(page, tmp_path, stand_in, STAND_INS)
    made, slow = notebook(page), slow_cells(page)
    made.cells = [cell for cell in made.cells if cell.source not in slow]
    done = nbclient.NotebookClient(made, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    counts = [cell.execution_count for cell in done.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


def slow_cells(page: Path) -> set[str]:
    """Cells of slow blocks."""
    return {
        "%%bash\n" + "\n".join(command.text for command in commands(block.text))
        for block in blocks(page.read_text("utf-8"))
        if block.slow
    }
