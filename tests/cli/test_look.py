"""`regard look` as a user runs it: page, pictures, JSON, heat map in the terminal, and errors."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.console import Command, Ended

from regard.viz.attention_maps import AttentionMaps

Look = Callable[..., Ended]


@pytest.fixture
def look(translation_run: Path, command: Command) -> Look:
    """`regard look RUN ...`."""
    return lambda *arguments: command("look", str(translation_run), *arguments)


def test_a_page_is_self_contained(look: Look) -> None:
    code, out, _ = look("drei vier.", "--target", "three four.", "-o", "pages/park.html", "--words")
    assert (code, out) == (0, "three four.\npage: pages/park.html\n")
    page = Path("pages/park.html").read_text("utf-8")
    assert "http" not in page.replace("http-equiv", "")
    assert "default-src 'none'" in page
    assert '"words":true' in page


def test_heat_map_in_the_terminal(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    target = "three \x1b[31mfour."
    _, out, _ = look("drei vier.", "--target", target)
    first, _, heading, sides, *picture = out.split("\n")
    assert first == "three �[31mfour."
    assert heading == "decoder.0.cross, mean of 2 heads"
    assert sides == "translation, from top to bottom, attends to source"
    assert "█" in out
    assert max(map(len, picture)) <= 40
    _, out, _ = look("drei vier.", "--layer", "encoder.0.self", "--head", "1")
    assert "encoder.0.self, head 1\nsource, from top to bottom, attends to source" in out


def read(path: str) -> AttentionMaps:
    return AttentionMaps.from_json(json.loads(Path(path).read_text("utf-8")))


def test_json_has_all_layers_or_the_chosen_one(look: Look) -> None:
    look("drei vier.", "--target", "four three", "-o", "all.json")
    whole = read("all.json")
    assert list(whole.layers) == ["encoder.0.self", "decoder.0.self", "decoder.0.cross"]
    assert whole.output.words == ("four", "three", "</s>")
    assert whole.layers["decoder.0.self"].keys.words == ("<s>", "four", "three")
    look("drei vier.", "-o", "one.json", "--layer", "encoder.rollout", "--words")
    one = read("one.json")
    assert {name: layer.shape for name, layer in one.layers.items()} == {"encoder.rollout": (1, 4, 4)}
    assert one.source == ["drei", "vier", ".", "</s>"]
    look("drei vier.", "--target", "four three", "-o", "head.json", "--head", "1")
    assert (
        read("head.json").layers["decoder.0.cross"].weights == whole.layers["decoder.0.cross"].weights[1:]
    ).all()


@pytest.mark.parametrize(
    ("more", "heads"), [(["--layer", "decoder.0.cross"], "01"), (["--head", "1"], "1"), (["--words"], "")]
)
def test_pictures_of_heads(look: Look, more: list[str], heads: str) -> None:
    _, out, _ = look("drei vier.", "-o", "heads.svg", *more)
    assert out.endswith("picture: heads.svg\n")
    text = Path("heads.svg").read_text("utf-8")
    assert [head for head in "0123" if f"decoder.0.cross, head {head}" in text] == list(heads)


def test_tokens_beyond_the_maximum_are_reported_and_left_out(look: Look) -> None:
    _, _, err = look("acht " * 40, "--target", "eight " * 50, "-o", "long.json")
    assert err.count("the model allows 24: the rest is left out\n") == 2
    assert (len(read("long.json").source), len(read("long.json").target)) == (24, 24)


MISTAKES = [
    (("eins", "--layer", "decoder.0.cros"), "did you mean decoder.0.cross"),
    (("eins", "--head", "2"), "there is no head 2 in decoder.0.cross: it has heads 0 to 1"),
    (("eins", "-o", "page.pdf"), ".html, .json, .png or .svg"),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_errors_are_one_line(look: Look, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = look(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
