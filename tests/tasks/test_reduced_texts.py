"""Token reduction in whole runs on texts: merging without and with training, pruning by learned thresholds."""

from pathlib import Path

import pytest
from support import small_text_tasks
from support.small_text_tasks import SMALL

import regard
from regard.config.schema import parse_assignments
from regard.errors import RegardError
from regard.tasks.encoder.reduction import parse_merge_amounts


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    small_text_tasks.write_labelled(folder)
    small_text_tasks.write_tagged(folder)
    return folder


def train(recipe: str, files: Path, out: Path, *more: str):
    ending = "conll" if recipe == "ner" else "tsv"
    common = [f"data.train=train.{ending}", f"data.valid=dev.{ending}", "train.patience=0"]
    return regard.train(
        recipe,
        out,
        overrides=parse_assignments([f"data.path={files}", *SMALL, "model.layers=2", *common, *more]),
    )


@pytest.fixture(scope="module")
def sentiment(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "sentiment"
    return train("sentiment", files, out, "train.epochs=6").folder


def test_merging_needs_no_training(sentiment: Path) -> None:
    loaded = regard.load(sentiment)
    all_tokens = loaded.evaluate().scores["accuracy"]
    loaded.merge(parse_merge_amounts("0"))
    assert loaded.evaluate().scores["accuracy"] == all_tokens
    loaded.merge(parse_merge_amounts("0.2"))
    assert loaded.evaluate().scores["accuracy"] > 0.8


def test_a_tagger_learns_with_merged_tokens(files: Path, tmp_path: Path) -> None:
    run = train(
        "ner", files, tmp_path / "ner", "train.epochs=20", "reduce.merge=[1, 0]", "reduce.neighbors_only=true"
    )
    assert run.measured.scores["accuracy"] > 0.9
    loaded = regard.load(run.folder)
    assert loaded.body.reduction.amounts == (1.0, 0.0)
    (sentence,) = loaded.tag(["a very green old house"])
    assert len(sentence.tags) == 5


def test_thresholds_are_learned_then_kept(sentiment: Path, files: Path, tmp_path: Path) -> None:
    start = [f"model.start={sentiment}", "train.lr=0.0005"]
    soft = [
        "reduce.prune=soft",
        "reduce.keep=0.6",
        "reduce.temperature=0.1",
        "reduce.weight=2",
        "train.epochs=4",
    ]
    run = train("sentiment", files, tmp_path / "soft", *start, *soft)
    assert run.measured.scores["accuracy"] > 0.9
    loaded = regard.load(run.folder)
    thresholds = loaded.body.reduction.thresholds
    assert thresholds[0] > 0.05
    ids = loaded.tokenizer.with_special_tokens(loaded.tokenizer.encode("a very old house is a red tree"))
    import torch

    row = torch.tensor([ids])
    remaining = loaded.body.reduced(row, row * 0, first_only=True)
    assert int(remaining.counts[1][0]) < len(ids)  # removed, not masked
    again = [f"model.start={run.folder}", "reduce.prune=hard", "train.epochs=1", "train.lr=0.0005"]
    hard = train("sentiment", files, tmp_path / "hard", *again)
    assert torch.equal(regard.load(hard.folder).body.reduction.thresholds, thresholds)
    assert hard.measured.scores["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("recipe", "assignment", "message"),
    [
        ("ner", "reduce.prune=soft", "reduce.prune: every token needs a tag"),
        ("sentiment", "reduce.merge=[1.5]", "reduce.merge: 1.5 is neither a share below 1 nor a whole number"),
        ("sentiment", "reduce.keep=0", "reduce.keep: 0 is out of range"),
        ("qa", "reduce.merge=[1]", "reduce: there is no such key"),
    ],
)
def test_invalid_settings_are_refused(recipe: str, assignment: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(RegardError) as caught:
        regard.train(recipe, tmp_path / "run", overrides=parse_assignments([assignment]))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("text", "amounts"), [("0.3", (0.3,)), ("16", (16.0,)), ("0.5,0,8", (0.5, 0.0, 8.0))])
def test_merge_amounts_are_parsed(text: str, amounts: tuple[float, ...]) -> None:
    assert parse_merge_amounts(text) == amounts


@pytest.mark.parametrize("text", ["", "half", "-1", "1.5", "nan", "inf", "0.1,,2"])
def test_invalid_merge_amounts_are_refused(text: str) -> None:
    with pytest.raises(RegardError, match="is no number of tokens to merge"):
        parse_merge_amounts(text)
