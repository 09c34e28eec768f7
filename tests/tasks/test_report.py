"""The report of a training run: every section, also where data or metrics are missing."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import regard
from regard.config.schema import parse_assignments
from regard.tasks.registry import load_recipe
from regard.tasks.report import (
    ATTENTION_LENGTHS,
    SplitResult,
    add_samples,
    add_summary,
    attention_sentences,
    changed_keys,
    evenly_spaced_rows,
    read_rows,
    report,
)
from regard.tasks.translation import model
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.model import Translator
from regard.tasks.translation.task import SAMPLES
from regard.viz.html_report import HtmlReport, mark_changes

SMALL = [
    "data.corpus=files", "data.source=n.de", "data.target=n.en", "tokenizer.kind=words", "model.embedding=16",
    "model.hidden=16", "train.steps=6", "train.validate_every=2", "train.log_every=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "luong"
    regard.train("luong-dot", folder, overrides=parse_assignments([f"data.path={corpus}", *SMALL]))
    return folder


def test_the_report_has_every_section(run: Path) -> None:
    page = report(run, "1.2.3")
    for section in (
        "Summary",
        "Curves",
        "Samples over time",
        "Worst 10 test sentences",
        "BLEU by length",
        "Attention",
        "Recipe",
        "Environment",
    ):
        assert f"<h2>{section}</h2>" in page
    assert "BLEU signature: nrefs:1|" in page
    assert "1.2.3" in page
    for curve in ("Loss (nats per token)", "Validation BLEU, greedy", "Learning rate", "Tokens per second",
                  "Gradient norm before clipping", "BLEU by source length"):  # fmt: skip
        assert f"<figcaption>{curve}</figcaption>" in page
    assert page.count('<svg class="heat"') == len(ATTENTION_LENGTHS)
    assert page.count("<caption>chrF ") == 10
    assert "corpus = &quot;files&quot;" in page
    for fact in ("best step", "training time", "speed", "gradient norm", "trained on"):
        assert f"<dt>{fact}</dt>" in page
    assert "such as an adjective" not in page  # the note on the picture book's test split


def test_samples_are_the_same_sentences_at_every_validation(run: Path) -> None:
    rows = [row for row in read_rows(run / "metrics.jsonl") if row["kind"] == "valid"]
    assert len(rows) == 3
    sentences = [[(sample["source"], sample["reference"]) for sample in row["samples"]] for row in rows]
    assert sentences[0][:SAMPLES] == sentences[1][:SAMPLES] == sentences[2][:SAMPLES]
    assert len(set(sentences[0][:SAMPLES])) == SAMPLES
    assert not set(sentences[0][SAMPLES:]) & set(sentences[1][SAMPLES:])
    page = HtmlReport("")
    add_samples(page, rows)
    first, *others = [part for part in page.parts if "<table>" in part]
    assert len(others) == SAMPLES - 1
    assert re.findall(r'<th scope="row">(.+?)</th>', first) == [
        "source", "reference", "step 2", "step 4", "step 6",
    ]  # fmt: skip


def test_changed_words_are_marked() -> None:
    assert mark_changes("a <b> dog sleeps", "a dog sits") == "a <mark>&lt;b&gt;</mark> dog <mark>sleeps</mark>"
    page = HtmlReport("")
    samples = [[{"source": "Hund", "translation": text}] for text in ("a cat", "a dog", "a dog")]
    add_samples(
        page, [{"kind": "valid", "step": step, "samples": sample} for step, sample in enumerate(samples)]
    )
    cells = re.findall(r'<td dir="auto">(.+?)</td>', "".join(page.parts))
    assert cells == ["Hund", "a cat", "a <mark>dog</mark>", "a dog"]


def test_keys_that_differ_from_their_defaults() -> None:
    overrides = parse_assignments(["train.lr=0.5", "model.heads=8", "train.steps=7"])
    recipe = load_recipe("picturebook", overrides)
    assert isinstance(recipe, TranslationRecipe)
    changed = {key: (value, default) for key, value, default in changed_keys(recipe)}
    assert changed["train.lr"] == ("0.5", "0.001")
    assert changed["train.steps"] == ("7", "")
    assert changed["model.heads"] == ("8", "4")
    assert "model.d_model" not in changed  # as model.size says
    assert "train.optimizer" not in changed


def test_the_picture_book_says_why_test_scores_are_lower(run: Path) -> None:
    loaded = Translator.load(run)
    loaded.recipe = replace(
        loaded.recipe, data=replace(loaded.recipe.data, corpus="picturebook", source=None, target=None)
    )
    page = HtmlReport("")
    evaluation = loaded.evaluate([("eins.", "one.")])
    add_summary(page, loaded, [], SplitResult([("eins.", "one.")], evaluation))
    assert "occurs in no training or validation sentence" in "".join(page.parts)


def test_progress_of_a_long_translation(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "PROGRESS_SENTENCES", 2)
    loaded, lines = Translator.load(run), []
    pairs = [
        ("eins.", "one."),
        ("zwei.", "two."),
        ("drei.", "three."),
        ("vier.", "four."),
        ("eins zwei.", "one two."),
    ]
    evaluation = loaded.evaluate(pairs, log=lines.append)
    assert lines == ["  2 of 5 sentences", "  4 of 5 sentences"]
    assert evaluation.translations == loaded.evaluate(pairs).translations


def test_without_the_test_data_the_model_card_is_shown(run: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(run, tmp_path / "moved")
    config = json.loads((moved / "config.json").read_text())
    config["data"]["path"] = str(tmp_path / "nowhere")
    (moved / "config.json").write_text(json.dumps(config))
    page = report(moved, "1.2.3")
    assert page.count("The test data is no longer available") == 2
    assert "The scores in the model card" in page
    assert "BLEU signature: `nrefs:1|" in page
    assert page.count('<svg class="heat"') == 3  # of the samples in metrics.jsonl
    assert "Worst" not in page


DAMAGES = ["", "no json", '{"kind": "train"}', '{"kind": "valid", "step": 1, "minutes": NaN, "loss": 1, "bleu": 1}',
           '{"kind": "valid", "step": 1, "minutes": 1, "loss": 1, "bleu": 1, "samples": [{"source": 3, "translation": ""}]}',
           '{"kind": "valid", "step": 1, "minutes": 1, "loss": 1, "bleu": 1, "samples": [{"source": "", "reference": 3, "translation": ""}]}',
           '{"kind": "start", "step": 0, "environment": 3}',
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
    assert "<script>alert" not in page
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
