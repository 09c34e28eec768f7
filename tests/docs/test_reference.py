"""The generated parts of the reference are in the repository, complete and up to date."""

import ast
from pathlib import Path

import pytest
from blocks import GENERATED, blocks
from python_pages import definition_markdown, docstring_markdown, documented, signature
from reference import REFERENCE, generated, with_generated_parts

PAGES = sorted(path for path in REFERENCE.glob("*.md") if GENERATED.search(path.read_text("utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_up_to_date(page: Path) -> None:
    text = page.read_text("utf-8")
    assert with_generated_parts(text) == text, "`make reference` brings the reference up to date"


def test_the_reference_is_complete_in_the_repository() -> None:
    texts = {page.stem: page.read_text("utf-8") for page in PAGES}
    assert set(texts) == {"commands", "nn", "python", "recipes"}
    assert "## regard train\n" in texts["commands"]
    assert "`--token-file" in texts["commands"]
    assert "| `batch_tokens` |" in texts["recipes"]
    assert "### causal_mask\n" in texts["nn"]
    assert "#### Translator.translate\n" in texts["python"]
    assert "| `nbest` | `int` | `1` |" in texts["python"]


def test_fences_of_generated_text_are_not_blocks_of_the_page() -> None:
    page = "<!-- generated: commands -->\n```python\n1 / 0\n```\n<!-- end of generated text -->\n```toml\na = 1\n```\n"
    assert [(block.line, block.kind) for block in blocks(page)] == [(6, "toml")]


def test_an_unknown_generator_is_refused() -> None:
    with pytest.raises(ValueError, match="no generator for 'poems'"):
        generated("poems")


def test_a_signature_is_written_as_in_the_source() -> None:
    [function] = ast.parse("""
def load(self, run: "str | Path", *beside: str, mode: Literal["a", "b"] = "a", **other: int) -> "Model": ...
""").body
    assert isinstance(function, ast.FunctionDef)
    assert signature(function, "load") == (
        'load(\n    run: str | Path,\n    *beside: str,\n    mode: Literal["a", "b"] = "a",\n'
        "    **other: int,\n) -> Model"
    )
    assert signature(function, "load", returns=False).endswith('= "a", **other: int)')


def test_a_docstring_becomes_markdown() -> None:
    doc = "What a *mask* does.\n\nArgs:\n    mask: (batch,\n        key).\n    *others: More.\n\n>>> 1 + 1\n2"
    assert docstring_markdown(doc).strip().splitlines() == [
        "What a \\*mask\\* does.", "", "**Args:**", "", "- `mask`: (batch, key).", "- `*others`: More.", "",
        "```text", ">>> 1 + 1", "2", "```",
    ]  # fmt: skip


def test_what_has_no_docstring_or_is_private_is_left_out() -> None:
    source = 'LIMIT = 3\n"""The limit."""\nOTHER = 4\ndef _f(): "Private."\ndef g(): "Public."\n'
    [(limit, doc), (function, _)] = documented(ast.parse(source))
    assert "LIMIT = 3" in definition_markdown("x", limit, doc, source)
    assert isinstance(function, ast.FunctionDef)
    assert function.name == "g"
