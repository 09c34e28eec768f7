"""The tasks of a BERT, from data files to predictions, small enough to train in seconds."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from support import small_text_tasks
from support.small_text_tasks import SMALL

import regard
from regard.cli.answer import answer
from regard.cli.look import look
from regard.cli.tag import tag
from regard.config.schema import parse_assignments
from regard.errors import RegardError
from regard.tasks.classification.model import Classifier
from regard.tasks.metrics_log import NullListener
from regard.tasks.tagging.model import Tagger
from regard.viz.attention_maps import AttentionMaps


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    small_text_tasks.write_labelled(folder)
    small_text_tasks.write_pairs(folder)
    small_text_tasks.write_tagged(folder)
    small_text_tasks.write_questions(folder)
    small_text_tasks.write_documents(folder)
    return folder


def train(recipe: str, files: Path, out: Path, *more: str, **options):
    return regard.train(
        recipe, out, overrides=parse_assignments([f"data.path={files}", *SMALL, *more]), **options
    )


@pytest.fixture(scope="module")
def sentiment(files: Path, tmp_path_factory: pytest.TempPathFactory):
    out = tmp_path_factory.mktemp("runs") / "sentiment"
    return train("sentiment", files, out, "data.train=train.tsv", "data.valid=dev.tsv", "train.epochs=6")


def test_labels_are_learned(sentiment) -> None:
    assert sentiment.measured.scores["accuracy"] > 0.95
    assert sentiment.on == "validation"
    model = regard.load(sentiment.folder)
    good, bad = model.classify(["a very green house", "grey tree"])
    assert (good.label, bad.label) == ("good", "bad")
    assert good.probability == good.probabilities["good"] > 0.5
    assert sum(good.probabilities.values()) == pytest.approx(1)


def test_the_run_folder_is_complete_and_opens_elsewhere(sentiment, tmp_path: Path) -> None:
    names = {path.name for path in sentiment.folder.iterdir()}
    assert names == {
        "README.md", "checkpoints", "config.json", "curves.png", "curves.svg", "labels.json", "metrics.jsonl",
        "model.safetensors", "recipe.toml", "tokenizer.json",
    }  # fmt: skip
    assert f"{sentiment.measured.scores['accuracy']:.4f}" in (sentiment.folder / "README.md").read_text("utf-8")
    shutil.copytree(sentiment.folder, tmp_path / "moved")
    texts = ["a red house", "black"]
    assert regard.load(tmp_path / "moved").classify(texts) == regard.load(sentiment.folder).classify(texts)


def test_a_prediction_does_not_depend_on_the_batch(sentiment) -> None:
    model = Classifier.load(sentiment.folder)
    texts = [text for text, _ in small_text_tasks.labelled(40, 5)]
    together = [prediction.probability for prediction in model.classify(texts)]
    alone = [model.classify([text])[0].probability for text in texts]
    assert together == pytest.approx(alone, abs=1e-5)


def test_every_run_has_embeddings_and_attention(sentiment) -> None:
    model = regard.load(sentiment.folder)
    vectors = model.embed(["a red house", "a red house", "old"])
    assert np.allclose(vectors[0], vectors[1], atol=1e-6)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    maps = model.attention("a red house")
    assert maps.layers["encoder.0.self"].shape == (2, len(maps.source), len(maps.source))


def test_looking_into_a_text(sentiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    look(sentiment.folder, "a red house")
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0] == "encoder.0.self, mean of 2 heads"  # no text was generated, so none is printed first
    assert lines[1] == "text, from top to bottom, attends to text"
    out = tmp_path / "looked.json"
    look(sentiment.folder, "a red", out, "old house", "encoder.rollout")
    maps = AttentionMaps.from_json(json.loads(out.read_text()))
    assert maps.source == ["[CLS]", "a", "red", "[SEP]", "old", "house", "[SEP]"]
    assert list(maps.layers) == ["encoder.rollout"]
    look(sentiment.folder, "a red house", tmp_path / "looked.html", head=1, words=True)
    assert "house" in (tmp_path / "looked.html").read_text()
    with pytest.warns(UserWarning, match="the text has 72 tokens, the model allows 64: the rest is left out"):
        assert len(regard.load(sentiment.folder).attention("old " * 70).source) == 64


def test_the_same_seed_gives_the_same_weights_and_so_does_a_resumed_run(files: Path, tmp_path: Path) -> None:
    common = [
        "data.train=train.tsv",
        "train.validate_every=8",
        "model.dropout=0.2",
        "model.attention_dropout=0.2",
    ]
    train("sentiment", files, tmp_path / "whole", *common, "train.steps=16", "train.schedule=constant")
    train("sentiment", files, tmp_path / "parts", *common, "train.steps=8", "train.schedule=constant")
    (tmp_path / "parts" / "config.json").unlink()  # as if it had been interrupted after step 8
    train(
        "sentiment",
        files,
        tmp_path / "parts",
        *common,
        "train.steps=16",
        "train.schedule=constant",
        resume=True,
    )
    whole, parts = (regard.load(tmp_path / name).model.state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_pairs_of_texts_are_classified(files: Path, tmp_path: Path) -> None:
    common = ["data.train=train-pairs.tsv", "data.valid=dev-pairs.tsv", "train.epochs=12", "train.lr=0.002"]
    run = train("inference", files, tmp_path / "run", *common)
    assert run.measured.scores["accuracy"] > 0.9
    model = regard.load(run.folder)
    predictions = model.classify([("a red tree", "black"), ("grey", "green")])
    assert [prediction.label for prediction in predictions] == ["bad", "good"]
    with pytest.raises(RegardError, match="was trained on pairs of texts"):
        model.classify(["a red tree"])


@pytest.fixture(scope="module")
def tagged(files: Path, tmp_path_factory: pytest.TempPathFactory):
    common = ["data.train=train.conll", "data.valid=dev.conll", "train.epochs=25", "train.patience=0"]
    return train("ner", files, tmp_path_factory.mktemp("runs") / "ner", *common)


def test_words_are_tagged(tagged, tmp_path: Path) -> None:
    run = tagged
    assert run.measured.scores["f1"] > 0.9
    tagged_sentence, empty = regard.load(run.folder).tag(["a very green old house", ""])
    assert tagged_sentence.words == ["a", "very", "green", "old", "house"]
    assert tagged_sentence.tags == ["O", "O", "B-good", "I-good", "O"]
    assert [(name.name, name.kind, name.first, name.last) for name in tagged_sentence.names] == [
        ("green old", "good", 2, 3)
    ]
    assert (empty.words, empty.names) == ([], [])
    (tmp_path / "in.txt").write_text("a very green old house\n")
    tag(run.folder, [tmp_path / "in.txt"], tmp_path / "out.conll", words=True)
    (written,) = read_conll_with_probabilities(tmp_path / "out.conll")
    assert written == list(zip(tagged_sentence.words, tagged_sentence.tags, strict=True))
    assert run.measured.scores["f1"] == pytest.approx(regard.load(run.folder).evaluate().scores["f1"])


def read_conll_with_probabilities(path: Path) -> list[list[tuple[str, str]]]:
    sentences = path.read_text().strip().split("\n\n")
    return [[tuple(line.split("\t")[:2]) for line in sentence.splitlines()] for sentence in sentences]


def test_long_sentences_are_tagged_in_segments(files: Path, tmp_path: Path) -> None:
    common = ["data.train=train.conll", "data.max_length=12", "train.steps=60", "train.validate_every=60"]
    model = regard.load(train("ner", files, tmp_path / "run", *common).folder)
    words = ["tree", "green"] * 30
    (sentence,) = model.tag([words])
    assert sentence.words == words
    assert sentence.tags[1::2].count("B-good") > 25


def test_answers_are_found_also_in_long_paragraphs(files: Path, tmp_path: Path) -> None:
    windows = ["data.max_length=40", "data.overlap=8", "data.longest_question=8", "data.longest_answer=3"]
    common = ["data.train=train.json", "data.valid=dev.json", "train.epochs=12", "train.patience=0"]
    run = train("qa", files, tmp_path / "run", *windows, *common)
    assert run.measured.scores["exact"] > 0.9
    model = regard.load(run.folder)
    paragraph = "Tall tree is very old " * 20 + "GREEN house is old"
    (span,) = model.answer([("which colour", paragraph)])
    assert span.answer == "GREEN" == paragraph[span.start : span.end]
    assert 0 < span.probability <= 1
    (tmp_path / "paragraph.txt").write_text(paragraph)
    answer(run.folder, [], tmp_path / "out.json", "which colour", tmp_path / "paragraph.txt", as_json=True)
    assert json.loads((tmp_path / "out.json").read_text())["answer"] == "GREEN"
    (tmp_path / "wrong.tsv").write_text("which colour\n")
    with pytest.raises(
        RegardError, match=r"wrong\.tsv, line 1: expected a question and its paragraph, separated by a tab"
    ):
        answer(run.folder, [tmp_path / "wrong.tsv"], tmp_path / "none")


def test_pretraining_learns_words_and_next_sentences_and_is_fine_tuned(files: Path, tmp_path: Path) -> None:
    messages: list[str] = []

    class LogListener(NullListener):
        def log(self, message: str) -> None:
            messages.append(message)

    common = [
        "data.train=text.txt",
        "data.valid=text-dev.txt",
        "data.max_length=48",
        "model.layers=2",  # one to gather the content of each part, one to compare
        "model.d_model=64",
        "train.lr=0.003",
        "train.minutes=5",
        "train.steps=300",
        "train.batch_tokens=1024",
    ]
    run = train("pretraining", files, tmp_path / "bert", *common, "train.validate_every=100")
    scores = run.measured.scores
    assert scores["loss"] == pytest.approx(scores["word_loss"] + scores["next_loss"])
    assert scores["next_accuracy"] > 0.9
    assert scores["accuracy"] > 0.15  # 1/5 where the document is known, 1/60 at random
    assert scores["word_loss"] < 2.2  # 1.6 where the document is known, 4.1 at random
    rows = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert all("next_accuracy" in row for row in rows if row["kind"] == "valid")
    out = tmp_path / "tuned"
    overrides = {"data.path": files, "data.train": "train.tsv", "model.start": run.folder, "train.epochs": 1}
    regard.train("sentiment", out, overrides=overrides, listener=LogListener())
    assert any(line.startswith("weights: from") and line.endswith("fresh: labels") for line in messages)
    assert any(line.startswith("labels: 1") for line in messages)
    tuned = regard.load(out)
    assert tuned.recipe.model.d_model == 64
    assert tuned.tokenizer.size == regard.load(run.folder).tokenizer.size


@pytest.mark.parametrize(
    ("recipe", "assignments", "sentence"),
    [
        ("sentiment", [], "data.train: this key is missing"),
        ("sentiment", ["data.train=none.tsv"], "no such file"),
        ("sentiment", ["data.train=train.tsv", "data.valid=odd.tsv"], r"odd\.tsv, line 1: the label 'fine' was not among"),
        ("sentiment", ["data.train=train.tsv", "train.best_by=exact"], "train.best_by: this task has no exact"),
        ("sentiment", ["data.train=train.tsv", "data.pair=3"], "data.pair: a second text is read only if data.pairs is true"),
        ("qa", ["data.train=train.json", "data.overlap=230"], "data.overlap: with max_length 256"),
        ("ner", ["data.train=train.tsv"], r"train\.tsv, line 1: '(bad|good)' is not a tag"),
        ("sentiment", ["data.train=same.tsv"], r"same\.tsv, lines 1 to 2: all examples have the label 'fine'"),
        ("qa", ["data.train=elsewhere.json"], r"elsewhere\.json, line 1 \(question 1\): the answer 'green' is not at position 2"),
        ("pretraining", ["data.train=one.txt", "data.valid=one.txt"], "holds one document"),
        ("pretraining", ["data.train=blank.txt"], r"blank\.txt holds no text"),
    ],
)  # fmt: skip
def test_mistakes_have_a_clear_error(
    files: Path, tmp_path: Path, recipe: str, assignments: list[str], sentence: str
) -> None:
    (files / "odd.tsv").write_text("a red house\tfine\n")
    (files / "one.txt").write_text("One line.\nAnother line.\n")
    (files / "blank.txt").write_text(" \n\n")
    (files / "same.tsv").write_text("a red house\tfine\na tree\tfine\n")
    question = {"id": "1", "question": "which", "answers": [{"text": "green", "answer_start": 2}]}
    article = {"paragraphs": [{"context": "a red house", "qas": [question]}]}
    (files / "elsewhere.json").write_text(json.dumps({"data": [article]}))
    with pytest.raises(RegardError, match=sentence):
        regard.train(
            recipe, tmp_path / "run", overrides=parse_assignments([f"data.path={files}", *assignments])
        )


BAD = {
    "a label unknown to training": ("sentiment", "a red house\tgood\na tree\tfine\n", "line 2: the label 'fine' was not among"),
    "an empty text": ("sentiment", "a red house\tgood\n \tbad\n", "line 2: the text is empty"),
    "a tag unknown to training": ("ner", "a\tO\nred\tB-new\n", "line 2: the tag 'B-new' was not among"),
    "a line without its tag": ("ner", "a\tO\nred\n", "line 2: 'red' has no tag"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(BAD))
def test_evaluating_bad_examples_names_file_and_line(sentiment, tagged, tmp_path: Path, name: str) -> None:
    task, content, sentence = BAD[name]
    path = tmp_path / ("bad.tsv" if task == "sentiment" else "bad.conll")
    path.write_text(content)
    run = sentiment if task == "sentiment" else tagged
    with pytest.raises(RegardError, match=rf"{re.escape(str(path))}, {sentence}") as caught:
        regard.load(run.folder).evaluate(path)
    assert "\n" not in str(caught.value)


def test_the_start_run_must_hold_a_bert_of_these_sizes(sentiment, files: Path, tmp_path: Path) -> None:
    common = [f"data.path={files}", "data.train=train.tsv", f"model.start={sentiment.folder}"]
    with pytest.raises(RegardError, match=r"model\.layers: .* has 1, not 3; leave it out"):
        regard.train("sentiment", tmp_path / "run", overrides=parse_assignments([*common, "model.layers=3"]))
    with pytest.raises(RegardError, match=r"not one that tags words; use `regard classify` or `regard embed`$"):
        Tagger.load(sentiment.folder)
