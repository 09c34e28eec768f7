"""Every block of the README, the site and the examples is run, or says why not; what it prints is compared."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from blocks import blocks, commands, pages
from support.page_run import ROOT, STAND_INS, PageFailed, PageRun, environment, matches, prepare

NEEDS = re.compile(r"<!-- needs: (.+?) -->")
"""Runs that another page has made: `runs/picturebook`."""
PAGES = pages(ROOT)
SLOW = [page for page in PAGES if any(block.slow or block.trained for block in blocks(page.read_text("utf-8")))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_blocks_of_a_page(
    page: Path, tmp_path: Path, programs: Path, cache: Path, stand_in: Callable[[str], Path], monkeypatch
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(cache))
    for pattern in (NEEDS, STAND_INS):
        prepare(page, tmp_path, stand_in, pattern)
    PageRun(page, tmp_path, environment(cache, programs), slow=False).run()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", SLOW, ids=name_of)
def test_the_slow_blocks_of_a_page(
    page: Path, tmp_path: Path, programs: Path, cache: Path, real_run: Callable[[str], Path], monkeypatch
) -> None:
    """With the runs as the page makes them: nothing stands in for anything."""
    monkeypatch.setenv("REGARD_CACHE", str(cache))
    prepare(page, tmp_path, real_run, NEEDS)
    PageRun(page, tmp_path, environment(cache, programs), slow=True).run()


def test_output_is_compared() -> None:
    assert matches("BLEU ...   (10 sentences)\n...\nend", "BLEU 12.3   (10 sentences)\na\nb\nend  \n")
    assert not matches("BLEU 12", "BLEU 13")
    assert not matches("one", "one\ntwo")
    assert matches(
        "BLEU 94.54   (1,000 lines, 4.0 minutes)", "BLEU 3.1  (20 lines, 12.5 minutes)", varying=True
    )
    assert not matches("BLEU 94.54", "chrF 94.54", varying=True)


def run_page(tmp_path: Path, text: str, *, slow: bool = False) -> int:
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    reading = PageRun(page, tmp_path, environment(tmp_path, tmp_path), slow=slow)
    reading.run()
    return reading.ran


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```console\n$ echo one\ntwo\n```\n", "where the page has\ntwo"),
        ("```console\n$ false\n```\n", "ended with 1"),
        ("```console fails\n$ true\n```\n", "ended with 0"),
        ("```console\n$ exit 0\n```\n", "the shell ended"),
        ("```python\nprint(1)\n```\n\n```output\n2\n```\n", "where the page has"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```toml\na = 1\n```\n", "neither run nor says why"),
        ("```\nmake demo\n```\n", "neither run nor says why"),
        ('```console not-run=""\n$ make\n```\n', "must say why"),
    ],
)
def test_a_block_that_is_wrong_is_found(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(PageFailed, match=re.escape(problem)):
        run_page(tmp_path, text)


def test_files_are_written_and_slow_blocks_wait(tmp_path: Path) -> None:
    text = (
        '```text file="a.txt"\none\n```\n\n```console\n$ cat a.txt\none\n```\n\n```console slow\n$ false\n```\n'
    )
    assert run_page(tmp_path, text) == 1
    with pytest.raises(PageFailed):
        run_page(tmp_path, text, slow=True)


def test_an_example_matches_any_output_but_none(tmp_path: Path) -> None:
    assert run_page(tmp_path, "```console example\n$ echo one\ntwo\n```\n") == 1
    with pytest.raises(PageFailed, match="printed nothing"):
        run_page(tmp_path, "```console example\n$ true\ntwo\n```\n")


def test_a_command_may_continue_over_several_lines() -> None:
    [one, two] = commands("$ echo a \\\n  b\na b\n$ true\n")
    assert one.text == "echo a \\\n  b"
    assert one.expected == "a b"
    assert two.expected == ""
