"""The report of a training run: every section, also where data or metrics are missing."""

import json
import shutil
from pathlib import Path

import pytest

import regard
from regard.config.schema import parse_assignments
from regard.tasks.report import (
    ATTENTION_LENGTHS,
    attention_sentences,
    evenly_spaced_rows,
    read_rows,
    report,
)

SMALL = [
    "data.corpus=files", "data.source=n.de", "data.target=n.en", "tokenizer.kind=words", "model.embedding=16",
    "model.hidden=16", "train.steps=6", "train.validate_every=2", "train.log_every=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "luong"
    regard.train("luong-dot", folder, overrides=parse_assignments([f"data.path={corpus}", *SMALL]))
    return folder


def test_every_section_is_there(run: Path) -> None:
    page = report(run, "1.2.3")
    for section in (
        "Scores",
        "Curves",
        "Samples over time",
        "BLEU by length",
        "Attention",
        "Recipe",
        "Environment",
    ):
        assert f"<h2>{section}</h2>" in page
    assert "BLEU signature: nrefs:1|" in page
    assert "1.2.3" in page
    assert page.count('<img src="data:image/svg+xml;base64,') == 2 + len(ATTENTION_LENGTHS)
    assert "corpus = &quot;files&quot;" in page
    assert "script-src" not in page
    assert "<script" not in page


def test_without_the_test_data_the_model_card_is_shown(run: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(run, tmp_path / "moved")
    config = json.loads((moved / "config.json").read_text())
    config["data"]["path"] = str(tmp_path / "nowhere")
    (moved / "config.json").write_text(json.dumps(config))
    page = report(moved, "1.2.3")
    assert page.count("The test data is no longer available") == 2
    assert "The scores in the model card" in page
    assert "BLEU signature: `nrefs:1|" in page
    assert page.count('<img src="data:image/svg+xml;base64,') == 1 + 3  # curves; sentences from metrics.jsonl


DAMAGES = ["", "no json", '{"kind": "train"}', '{"kind": "valid", "step": 1, "minutes": NaN, "loss": 1, "bleu": 1}',
           '{"kind": "valid", "step": 1, "minutes": 1, "loss": 1, "bleu": 1, "samples": [{"source": 3, "translation": ""}]}',
           '{"kind": "valid", "step": 1, "minutes": 1, "loss": 1, "bleu": 1, "samples": 3}', "[]", "3"]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_metrics_file_has_no_rows(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(damage)
    assert read_rows(path) == []
    assert read_rows(tmp_path / "missing.jsonl") == []


def test_without_metrics_and_with_hostile_samples(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    with (copy / "metrics.jsonl").open("a") as file:
        samples = [{"source": "<script>alert(1)</script>", "translation": "\x1b[31m"}]
        row = {"kind": "valid", "step": 9, "minutes": 1.0, "loss": 1.0, "bleu": 1.0, "samples": samples}
        file.write(json.dumps(row) + "\n")
    page = report(copy, "1.2.3")
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    (copy / "metrics.jsonl").unlink()
    assert "metrics.jsonl is missing or damaged" in report(copy, "1.2.3")


def test_a_model_without_attention(corpus: Path, tmp_path: Path) -> None:
    regard.train("rnn", tmp_path / "rnn", overrides=parse_assignments([f"data.path={corpus}", *SMALL]))
    assert "This model has no attention." in report(tmp_path / "rnn", "1.2.3")


def test_three_sentences_of_different_length() -> None:
    pairs = [(" ".join(["word"] * count), "") for count in range(1, 30)]
    assert [len(text.split()) for text in attention_sentences(pairs, [])] == list(ATTENTION_LENGTHS)
    assert attention_sentences([("one", ""), ("one", ""), ("two words", "")], []) == ["two words", "one"]
    assert attention_sentences([], []) == []


def test_samples_are_evenly_spaced() -> None:
    rows = [{"step": step} for step in range(100)]
    assert [row["step"] for row in evenly_spaced_rows(rows, 4)] == [0, 33, 66, 99]
    assert evenly_spaced_rows(rows[:3], 4) == rows[:3]
