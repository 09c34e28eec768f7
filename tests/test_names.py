"""One concept has one name, the field's own; local names and prose are plain."""

import shutil
from collections.abc import Callable, Iterable

import pytest
from support import old_names, wording

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None or not (wording.ROOT / ".git").exists(),
    reason="needs git and a checkout to list the files",
)


def test_no_old_name_is_left() -> None:
    assert old_names.findings() == []


def test_no_vague_name_or_worn_phrase_is_left() -> None:
    assert wording.findings(list(wording.SEARCHED)) == []


@pytest.mark.parametrize(
    ("reader", "source", "match"),
    [
        (wording.python_prose, "def test_it_goes_on() -> None: ...", "goes on"),
        (wording.python_prose, "for each in parameters: ...", "each"),
        (wording.python_prose, "x = 1  # weights of chance", "of chance"),
        (wording.markdown_prose, "# Nothing lost", "Nothing lost"),
        (wording.toml_prose, "a = 1  # unless given", "unless given"),
        (wording.c_prose, "/* a row\n * is written aside */", "written aside"),
        (wording.javascript_prose, "const title = `Who looked where`;", "Who looked where"),
        (wording.html_prose, "<script>told</script>\n<p>tokens a second</p>", "tokens a second"),
    ],
)
def test_worn_phrases_are_detected(
    reader: Callable[[str], Iterable[tuple[int, str, bool]]], source: str, match: str
) -> None:
    (finding,) = wording.worn(reader(source))
    first = source.replace("_", " ").index(match)
    assert finding[:2] == (source.count("\n", 0, first) + 1, match)


def test_plain_code_has_no_findings() -> None:
    source = "from hypothesis import given\n\n\n@given(st.integers())\ndef test_it(number): ...  # room for one more\n"
    assert list(wording.worn(wording.python_prose(source))) == []
