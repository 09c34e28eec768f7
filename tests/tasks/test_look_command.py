"""`regard look` and `regard report` as they are called: page, pictures, JSON, the terminal, and mistakes."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import regard
from regard.cli.main import main
from regard.viz.payload import AttentionMaps

Called = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    regard.train("translation", folder, overrides={
        "data.source": corpus / "n.de", "data.target": corpus / "n.en", "text.kind": "bpe", "text.size": 290,
        "model.longest": 24, "model.encoder_layers": 1, "model.decoder_layers": 1, "model.d_model": 16, "model.heads": 2,
        "model.d_ff": 16, "train.steps": 3, "train.validate_every": 3,
    })  # fmt: skip
    return folder


@pytest.fixture
def called(run: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> Called:
    """The command on that run, from an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(verb: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", verb, str(run), *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, *capsys.readouterr()

    return call


def test_a_page_is_one_file_that_asks_for_nothing(called: Called) -> None:
    code, out, _ = called("look", "drei vier.", "--target", "three four.", "-o", "pages/park.html", "--words")
    assert (code, out) == (0, "three four.\npage: pages/park.html\n")
    page = Path("pages/park.html").read_text("utf-8")
    assert "http" not in page.replace("http-equiv", "")
    assert "default-src 'none'" in page
    assert '"words":true' in page


def test_in_the_terminal(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    target = "three \x1b[31mfour."
    _, out, _ = called("look", "drei vier.", "--target", target)
    first, _, heading, sides, *picture = out.split("\n")
    assert first == "three �[31mfour."
    assert heading == "decoder.0.cross, mean of 2 heads"
    assert sides == "translation, from top to bottom, looks at source"
    assert "█" in out
    assert max(map(len, picture)) <= 40
    _, out, _ = called("look", "drei vier.", "--layer", "encoder.0.self", "--head", "1")
    assert "encoder.0.self, head 1\nsource, from top to bottom, looks at source" in out


def read(path: str) -> AttentionMaps:
    return AttentionMaps.from_json(json.loads(Path(path).read_text("utf-8")))


def test_json_holds_all_or_what_was_asked_for(called: Called) -> None:
    called("look", "drei vier.", "--target", "four three", "-o", "all.json")
    whole = read("all.json")
    assert list(whole.layers) == ["encoder.0.self", "decoder.0.self", "decoder.0.cross"]
    assert whole.written.words == ("four", "three", "</s>")
    assert whole.layers["decoder.0.self"].right.words == ("<s>", "four", "three")
    called("look", "drei vier.", "-o", "one.json", "--layer", "encoder.rollout", "--words")
    one = read("one.json")
    assert {name: layer.shape for name, layer in one.layers.items()} == {"encoder.rollout": (1, 4, 4)}
    assert one.source == ["drei", "vier", ".", "</s>"]
    called("look", "drei vier.", "--target", "four three", "-o", "head.json", "--head", "1")
    assert (
        read("head.json").layers["decoder.0.cross"].weights == whole.layers["decoder.0.cross"].weights[1:]
    ).all()


@pytest.mark.parametrize(
    ("more", "heads"), [(["--layer", "decoder.0.cross"], "01"), (["--head", "1"], "1"), (["--words"], "")]
)
def test_pictures_of_heads(called: Called, more: list[str], heads: str) -> None:
    _, out, _ = called("look", "drei vier.", "-o", "heads.svg", *more)
    assert out.endswith("picture: heads.svg\n")
    text = Path("heads.svg").read_text("utf-8")
    assert [head for head in "0123" if f"decoder.0.cross, head {head}" in text] == list(heads)


def test_what_does_not_fit_is_told_and_left_out(called: Called) -> None:
    _, _, told = called("look", "acht " * 40, "--target", "eight " * 50, "-o", "long.json")
    assert told.count("the model allows 24: the rest is left out\n") == 2
    assert (len(read("long.json").source), len(read("long.json").target)) == (24, 24)


MISTAKES = [
    (("look", "eins", "--layer", "decoder.0.cros"), "did you mean decoder.0.cross"),
    (("look", "eins", "--head", "2"), "there is no head 2 in decoder.0.cross: it has heads 0 to 1"),
    (("look", "eins", "-o", "page.pdf"), ".html, .json, .png or .svg"),
    (("report", "-o", "report.md"), "a report is written as .html"),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_a_mistake_is_one_sentence(called: Called, arguments: tuple[str, ...], words: str) -> None:
    code, out, told = called(*arguments)
    assert (code, out, told.count("\n")) == (2, "", 1)
    assert words in told


def test_a_report_is_one_file(called: Called) -> None:
    code, out, told = called("report", "-o", "made/report.html")
    assert (code, out) == (0, "report: made/report.html\n")
    assert "test sentences ..." in told
    page = Path("made/report.html").read_text("utf-8")
    assert "<h1>Training report: run</h1>" in page
    assert page.count("<img ") == 5
