"""Two small runs side by side: the numbers, the files, and what cannot be compared."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.small_translation import train, write_corpus

from regard.cli.compare import compare as compare_command
from regard.data.parallel import ParallelCorpus
from regard.errors import RegardError
from regard.tasks import comparison
from regard.tasks.comparison import Comparison, compare, short_names
from regard.tasks.translation import model as loaded
from regard.tasks.translation.model import Translator


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a corpus, the run `good` and the run `poor`, which learned next to nothing."""
    folder = tmp_path_factory.mktemp("comparison")
    write_corpus(folder, 600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        patch.setenv("COLUMNS", "120")
        for name, steps in (("good", 90), ("poor", 4)):
            train(
                folder, folder / name, f"train.steps={steps}", "model.max_length=16", "train.validate_every=45"
            )
        yield folder


@pytest.fixture(scope="module")
def found(place: Path) -> Comparison:
    return compare([place / "good", place / "poor"])


@pytest.fixture
def variant(place: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of `good` whose configuration says something else."""

    def make(name: str, section: str, **changes: object) -> Path:
        shutil.copytree(place / "good", tmp_path / name)
        config = json.loads((tmp_path / name / "config.json").read_text("utf-8"))
        config[section].update(changes)
        (tmp_path / name / "config.json").write_text(json.dumps(config), "utf-8")
        return tmp_path / name

    return make


def test_every_run_has_its_numbers(found: Comparison, place: Path) -> None:
    good, poor = found.as_json()["runs"]
    shape = "transformer, 1 + 1 layers, 32 / 64, 2 heads"
    assert (good["name"], good["run"], good["model"]) == ("good", str(place / "good"), shape)
    assert (good["steps"], poor["steps"]) == (90, 4)
    assert good["parameters"] == poor["parameters"] > 1000
    assert len(good["validations"]) == 2
    for run in (good, poor):
        assert run["minutes"] > 0
        assert run["tokens_per_second"] > 0
        assert run["decode_seconds"] * run["sentences_per_second"] == pytest.approx(found.sentences)
        assert sum(row["sentences"] for row in run["by_length"]) == found.sentences
    assert good["bleu"] > poor["bleu"] + 20
    assert (good["p_value"], poor["p_value"] < 0.05) == (None, True)
    assert good["half_width"] > 0


def test_the_scores_are_those_of_evaluate(found: Comparison, place: Path) -> None:
    alone = Translator.load(place / "good")
    assert found.runs[0].evaluation.quality == alone.evaluate(alone.test_pairs()).quality
    assert found.signature == found.runs[0].evaluation.quality.signature


def test_a_data_section_that_runs_share_is_read_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def counted(data: Any) -> ParallelCorpus:
        read.append(data)
        return ParallelCorpus(data)

    monkeypatch.setattr(loaded, "ParallelCorpus", counted)
    compare([place / "good", place / "poor"], beam=1)
    assert len(read) == 1


def test_other_data_with_the_same_test_split_is_no_obstacle(place: Path, variant: Callable[..., Path]) -> None:
    fewer = variant("fewer", "data", pairs=100)
    assert [each.name for each in compare([place / "good", fewer], beam=1).runs] == ["good", "fewer"]


def test_files_beam_and_progress(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.de").write_text("drei vier.\neins.\n", "utf-8")
    (tmp_path / "t.en").write_text("three four.\none.\n", "utf-8")
    files = tmp_path / "t.de", tmp_path / "t.en"
    compare_command([place / "good", place / "poor"], *files, beam=2, as_json=True)
    said = capsys.readouterr()
    printed = json.loads(said.out)
    assert printed["test_set"] == f"{files[0]} and {files[1]}"
    assert (printed["sentences"], printed["runs"][1]["beam"]) == (2, 2)
    assert said.err == "translating 2 sentences with good ...\ntranslating 2 sentences with poor ...\n"


@pytest.fixture
def without_work(found: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command with a comparison that is made already."""
    monkeypatch.setattr(comparison, "compare", lambda *_, **__: found)


@pytest.mark.usefixtures("without_work")
def test_tables_markdown_json_and_picture(
    found: Comparison, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [tmp_path / name for name in ("report.md", "all/numbers.json", "my pictures/a b.png")]
    compare_command([], outputs=outputs)
    printed, page = capsys.readouterr().out, outputs[0].read_text("utf-8")
    for text in (printed, page):
        assert f"{found.sentences} sentences: the test split of n.de, de to en" in text
        assert "p: paired bootstrap against good" in text
        assert found.signature in text
        assert f"{found.runs[0].evaluation.quality.bleu:.2f} ± {found.runs[0].paired.half_width:.2f}" in text
        for each in found.runs:
            assert f"{each.parameters:,}" in text
    assert page.startswith("# Comparison of good, poor\n")
    assert f"| run | 1-5 |\n| :--- | ---: |\n| sentences | {found.sentences} |\n" in page
    assert "](my%20pictures/a%20b.png)" in page
    assert json.loads(outputs[1].read_text("utf-8")) == found.as_json()
    assert outputs[2].read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("without_work")
def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("report.md", "picture.png"):
        with pytest.raises(RegardError, match=rf"{name} cannot be written: .*"):
            compare_command([], outputs=[tmp_path / "file" / name], as_json=True)


def test_an_unknown_ending_is_refused_before_any_work() -> None:
    with pytest.raises(
        RegardError, match=r"report\.pdf: a comparison is written as \.md, \.json, \.png or \.svg"
    ):
        compare_command([Path("nowhere")], outputs=[Path("report.pdf")])


def test_a_run_without_metrics_has_dashes(
    place: Path, variant: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = variant("silent", "train")
    (silent / "metrics.jsonl").unlink()
    outputs = [tmp_path / "both.json", tmp_path / "both.svg"]
    compare_command([place / "good", silent], beam=1, outputs=outputs)
    said = capsys.readouterr()
    assert "metrics.jsonl is missing or damaged: nothing is known of the training of silent" in said.err
    (row,) = (line for line in said.out.splitlines() if "silent" in line and "transformer" in line)
    assert row.split()[-3:] == ["–"] * 3
    other = json.loads(outputs[0].read_text("utf-8"))["runs"][1]
    assert [other[key] for key in ("steps", "minutes", "tokens_per_second", "validations")] == [None] * 4
    assert outputs[1].exists()


def test_names_are_as_short_as_they_can_be() -> None:
    folders = [Path("runs/a/best"), Path("runs/words"), Path("runs/b/best")]
    assert short_names(folders) == ["runs/a/best", "words", "runs/b/best"]


@pytest.mark.parametrize("count", [0, 1])
def test_one_run_is_no_comparison(place: Path, count: int) -> None:
    with pytest.raises(RegardError, match=f"at least two runs, not {count}"):
        compare([place / "good"] * count)


def test_the_same_run_twice_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="good is given twice; "):
        compare([place / "good", place / "poor", place / "good"])
    (tmp_path / "latest").symlink_to(place / "good")
    with pytest.raises(RegardError, match=r"latest is given twice, also as .*good; "):
        compare([place / "good", tmp_path / "latest"])


@pytest.mark.parametrize(
    ("section", "changes", "sentence"),
    [
        ("data", {"source_language": "fr"}, "good translates de to en and other fr to en; give --source and --target"),
        ("data", {"held_out": 5}, "good and other have different test sentences; give --source and --target"),
        ("data", {"source": "gone.de"}, r"the test split of other cannot be read \(.*gone\.de.*\); give --source"),
        ("tokenizer", {"tokenized": True}, "the text of other is tokenized and that of good is not: their scores cannot"),
    ],
)  # fmt: skip
def test_what_differs_too_much_is_refused(
    place: Path, variant: Callable[..., Path], section: str, changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(RegardError, match=sentence):
        compare([place / "good", variant("other", section, **changes)])


def test_files_are_the_way_out(place: Path, variant: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "t.de").write_text("drei vier.\n", "utf-8")
    (tmp_path / "t.en").write_text("three four.\n", "utf-8")
    files = {"source": tmp_path / "t.de", "target": tmp_path / "t.en"}
    other = variant("other", "data", source_language="fr", source="gone.de")
    assert compare([place / "good", other], **files).sentences == 1


def test_other_references_are_refused_and_other_blanks_are_not(place: Path, tmp_path: Path) -> None:
    lower = tmp_path / "lower"
    train(place, lower, "tokenizer.lower=true", "train.steps=1", "model.max_length=16")
    (tmp_path / "t.de").write_text("drei  vier.\n", "utf-8")
    (tmp_path / "t.en").write_text("Three  four.\n", "utf-8")
    files = {"source": tmp_path / "t.de", "target": tmp_path / "t.en"}
    with pytest.raises(
        RegardError, match=r"good and lower read the references differently, 'Three four\.' and 'th"
    ):
        compare([place / "good", lower], **files)
    pieces = tmp_path / "pieces"
    train(
        place, pieces, "tokenizer.kind=bpe", "tokenizer.vocab_size=300", "train.steps=1", "model.max_length=64"
    )
    assert Translator.load(pieces).references([("", "Three  four.")]) == ["Three  four."]
    assert len(compare([place / "good", pieces], **files).runs) == 2
