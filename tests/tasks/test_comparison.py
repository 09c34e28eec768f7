"""Comparison of two small runs: the numbers, the files, and what cannot be compared."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.chromium import OpenedPage
from support.small_translation import train, write_corpus

from regard.cli.compare import compare as compare_command
from regard.cli.compare import heading, p_text, tables
from regard.data.parallel import ParallelCorpus
from regard.errors import RegardError
from regard.tasks import comparison
from regard.tasks.comparison import Comparison, compare, short_names
from regard.tasks.comparison_page import DIFFERENCES, comparison_page, most_different
from regard.tasks.translation import model as loaded
from regard.tasks.translation.model import Translator


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a corpus, the run `good` and the run `poor`, which is hardly trained."""
    root = tmp_path_factory.mktemp("comparison")
    write_corpus(root, 600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(root / "cache"))
        patch.setenv("COLUMNS", "120")
        for name, steps in (("good", 90), ("poor", 4)):
            train(root, root / name, f"train.steps={steps}", "model.max_length=16", "train.validate_every=45")
        yield root


@pytest.fixture(scope="module")
def comparison_result(folder: Path) -> Comparison:
    return compare([folder / "good", folder / "poor"])


@pytest.fixture
def variant(folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of `good` with a changed configuration."""

    def make(name: str, section: str, **changes: object) -> Path:
        shutil.copytree(folder / "good", tmp_path / name)
        config = json.loads((tmp_path / name / "config.json").read_text("utf-8"))
        config[section].update(changes)
        (tmp_path / name / "config.json").write_text(json.dumps(config), "utf-8")
        return tmp_path / name

    return make


def test_every_run_has_its_numbers(comparison_result: Comparison, folder: Path) -> None:
    good, poor = comparison_result.as_json()["runs"]
    shape = "transformer, 1 + 1 layers, 32 / 64, 2 heads"
    assert (good["name"], good["run"], good["model"]) == ("good", str(folder / "good"), shape)
    assert (good["steps"], poor["steps"]) == (90, 4)
    assert good["parameters"] == poor["parameters"] > 1000
    assert len(good["validations"]) == 2
    for run in (good, poor):
        assert run["minutes"] > 0
        assert run["tokens_per_second"] > 0
        assert run["decode_seconds"] * run["sentences_per_second"] == pytest.approx(comparison_result.sentences)
        assert sum(row["sentences"] for row in run["by_length"]) == comparison_result.sentences
    assert good["bleu"] > poor["bleu"] + 20
    assert (good["p_value"], poor["p_value"] < 0.05) == (None, True)
    assert good["half_width"] > 0


def test_the_scores_equal_those_of_evaluate(comparison_result: Comparison, folder: Path) -> None:
    alone = Translator.load(folder / "good")
    assert comparison_result.runs[0].evaluation.quality == alone.evaluate(alone.test_pairs()).quality
    assert comparison_result.signature == comparison_result.runs[0].evaluation.quality.signature


def test_a_data_section_that_runs_share_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def counted(data: Any) -> ParallelCorpus:
        read.append(data)
        return ParallelCorpus(data)

    monkeypatch.setattr(loaded, "ParallelCorpus", counted)
    compare([folder / "good", folder / "poor"], beam=1)
    assert len(read) == 1


def test_other_data_with_the_same_test_split_are_comparable(folder: Path, variant: Callable[..., Path]) -> None:
    fewer = variant("fewer", "data", pairs=100)
    assert [run.name for run in compare([folder / "good", fewer], beam=1).runs] == ["good", "fewer"]


def test_files_beam_and_progress(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.de").write_text("drei vier.\neins.\n", "utf-8")
    (tmp_path / "t.en").write_text("three four.\none.\n", "utf-8")
    files = tmp_path / "t.de", tmp_path / "t.en"
    compare_command([folder / "good", folder / "poor"], *files, beam=2, as_json=True)
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert printed["test_set"] == f"{files[0]} and {files[1]}"
    assert (printed["sentences"], printed["runs"][1]["beam"]) == (2, 2)
    assert captured.err == "translating 2 sentences with good ...\ntranslating 2 sentences with poor ...\n"


@pytest.fixture
def precomputed(comparison_result: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """`compare` returns the comparison of the fixture."""
    monkeypatch.setattr(comparison, "compare", lambda *_, **__: comparison_result)


@pytest.mark.usefixtures("precomputed")
def test_tables_markdown_json_and_picture(
    comparison_result: Comparison, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [
        tmp_path / name for name in ("report.md", "all/numbers.json", "my pictures/a b.png", "page.html")
    ]
    compare_command([], outputs=outputs)
    printed, page = capsys.readouterr().out, outputs[0].read_text("utf-8")
    for text in (printed, page):
        assert f"{comparison_result.sentences} sentences: the test split of n.de, de to en" in text
        assert "p: paired bootstrap test against good" in text
        assert comparison_result.signature in text
        assert text.count("transformer, 1 + 1 layers, 32 / 64, 2 heads") == 1  # the same in both runs
        assert "< 0.001" in text
        assert (
            f"{comparison_result.runs[0].evaluation.quality.bleu:.2f} ± {comparison_result.runs[0].paired.half_width:.2f}"
            in text
        )
        for run in comparison_result.runs:
            assert f"{run.parameters:,}" in text
    html = outputs[3].read_text("utf-8")
    for run in comparison_result.runs:
        assert f"{run.evaluation.quality.bleu:.2f} ± {run.paired.half_width:.2f}" in html
    assert page.startswith("# Comparison of good, poor\n")
    assert f"| run | 1-5 |\n| :--- | ---: |\n| sentences | {comparison_result.sentences} |\n" in page
    assert "](my%20pictures/a%20b.png)" in page
    assert json.loads(outputs[1].read_text("utf-8")) == comparison_result.as_json()
    assert outputs[2].read_bytes().startswith(b"\x89PNG")


def test_the_page_has_curves_and_the_outputs_that_differ_most(
    comparison_result: Comparison, browser, tmp_path: Path
) -> None:
    for width, scheme in ((1200, "light"), (390, "dark")):
        page = comparison_page(comparison_result, heading(comparison_result), tables(comparison_result))
        shown = OpenedPage(
            browser, page, tmp_path / "page.html", viewport={"width": width, "height": 800}, color_scheme=scheme
        )
        assert shown.page.locator("h1").text_content() == "Comparison of good, poor"
        training, by_length = shown.page.locator("figcaption").all_text_contents()
        assert training == "Validation BLEU, greedy, in training"
        assert by_length.startswith("BLEU by source length")
        chart = shown.page.locator(".chart > svg").first
        chart.focus()
        shown.page.keyboard.press("End")
        last = comparison_result.runs[0].history.validations[-1]
        assert f"good {last['bleu']:.2f}" in shown.page.locator(".legend").first.inner_text()
        assert shown.page.locator(".sentence").count() == DIFFERENCES
        rows = shown.page.locator(".sentence").first.locator("th").all_text_contents()
        assert rows == ["source", "reference", "good", "poor"]
        assert shown.fits()
        assert shown.errors == []
        shown.page.context.close()


def test_sentences_whose_outputs_differ_most() -> None:
    first = ["a black dog", "the same", "a red cat", "two birds"]
    second = ["a black cat", "the same", "zzz", "two birds"]
    assert most_different([first, second], 10) == [2, 0]
    assert most_different([first, second, [*first[:3], "qqq"]], 2) == [2, 3]
    assert most_different([first, first], 10) == []


def test_p_values_at_the_floor_of_the_resamples() -> None:
    assert [p_text(value) for value in (None, 1 / 1001, 0.001998, 0.25, 1.0)] == [
        "–",
        "< 0.001",
        "0.002",
        "0.250",
        "1.000",
    ]


@pytest.mark.usefixtures("precomputed")
def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("report.md", "picture.png", "page.html"):
        with pytest.raises(RegardError, match=rf"{name} cannot be written: .*"):
            compare_command([], outputs=[tmp_path / "file" / name], as_json=True)


def test_an_unknown_ending_is_refused_before_translating() -> None:
    with pytest.raises(
        RegardError, match=r"report\.pdf: a comparison is written as \.html, \.md, \.json, \.png or \.svg"
    ):
        compare_command([Path("nowhere")], outputs=[Path("report.pdf")])


def test_a_run_without_metrics_has_dashes(
    folder: Path, variant: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = variant("silent", "train")
    (silent / "metrics.jsonl").unlink()
    outputs = [tmp_path / "both.json", tmp_path / "both.svg"]
    compare_command([folder / "good", silent], beam=1, outputs=outputs)
    captured = capsys.readouterr()
    assert "metrics.jsonl is missing or damaged; no training history of silent" in captured.err
    row = next(line for line in captured.out.splitlines() if line.split()[:1] == ["silent"])
    assert row.split()[-3:] == ["–"] * 3
    other = json.loads(outputs[0].read_text("utf-8"))["runs"][1]
    assert [other[key] for key in ("steps", "minutes", "tokens_per_second", "validations")] == [None] * 4
    assert outputs[1].exists()


def test_names_are_as_short_as_they_can_be() -> None:
    folders = [Path("runs/a/best"), Path("runs/words"), Path("runs/b/best")]
    assert short_names(folders) == ["runs/a/best", "words", "runs/b/best"]


@pytest.mark.parametrize("count", [0, 1])
def test_comparing_one_run_is_refused(folder: Path, count: int) -> None:
    with pytest.raises(RegardError, match=f"at least two runs, not {count}"):
        compare([folder / "good"] * count)


def test_the_same_run_twice_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="good is given twice; "):
        compare([folder / "good", folder / "poor", folder / "good"])
    (tmp_path / "latest").symlink_to(folder / "good")
    with pytest.raises(RegardError, match=r"latest is given twice, also as .*good; "):
        compare([folder / "good", tmp_path / "latest"])


@pytest.mark.parametrize(
    ("section", "changes", "sentence"),
    [
        ("data", {"source_language": "fr"}, "good translates de to en and other fr to en; give --source and --target"),
        ("data", {"held_out": 5}, "good and other have different test sentences; give --source and --target"),
        ("data", {"source": "gone.de"}, r"the test split of other cannot be read \(.*gone\.de.*\); give --source"),
        ("tokenizer", {"tokenized": True}, "the text of other is tokenized and that of good is not; their scores cannot"),
    ],
)  # fmt: skip
def test_runs_that_differ_too_much_are_refused(
    folder: Path, variant: Callable[..., Path], section: str, changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(RegardError, match=sentence):
        compare([folder / "good", variant("other", section, **changes)])


def test_runs_with_different_test_splits_are_comparable_on_files(
    folder: Path, variant: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "t.de").write_text("drei vier.\n", "utf-8")
    (tmp_path / "t.en").write_text("three four.\n", "utf-8")
    files = {"source": tmp_path / "t.de", "target": tmp_path / "t.en"}
    other = variant("other", "data", source_language="fr", source="gone.de")
    assert compare([folder / "good", other], **files).sentences == 1


def test_other_references_are_refused_and_other_blanks_are_not(folder: Path, tmp_path: Path) -> None:
    lower = tmp_path / "lower"
    train(folder, lower, "tokenizer.lowercase=true", "train.steps=1", "model.max_length=16")
    (tmp_path / "t.de").write_text("drei  vier.\n", "utf-8")
    (tmp_path / "t.en").write_text("Three  four.\n", "utf-8")
    files = {"source": tmp_path / "t.de", "target": tmp_path / "t.en"}
    with pytest.raises(
        RegardError, match=r"good and lower read the references differently, 'Three four\.' and 'th"
    ):
        compare([folder / "good", lower], **files)
    pieces = tmp_path / "pieces"
    train(
        folder, pieces, "tokenizer.kind=bpe", "tokenizer.vocab_size=300", "train.steps=1", "model.max_length=64"
    )
    assert Translator.load(pieces).references([("", "Three  four.")]) == ["Three  four."]
    assert len(compare([folder / "good", pieces], **files).runs) == 2
