"""BERT's tasks through the command line: train, ask on files and on standard input, and be told what is wrong."""

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

SMALL = [
    "model.layers=1", "model.d_model=32", "model.heads=2", "model.d_ff=64", "model.dropout=0", "tokenizer.vocab_size=120",
    "tokenizer.min_count=1", "train.lr=0.005", "train.warmup=10", "train.batch_tokens=128", "train.epochs=6",
]  # fmt: skip


def write_reviews(path: Path, count: int, seed: int) -> None:
    """Texts with one colour in them, which says the label."""
    sampling = random.Random(seed)
    lines = []
    for number in range(count):
        words = sampling.choices(["a", "house", "tree", "is", "very", "old"], k=sampling.randint(3, 8))
        words.insert(
            sampling.randrange(len(words)),
            sampling.choice(["red", "green"] if number % 2 else ["black", "grey"]),
        )
        lines.append(f"{' '.join(words)}\t{'good' if number % 2 else 'bad'}\n")
    path.write_text("".join(lines))


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory, regard: Command) -> Path:
    folder = tmp_path_factory.mktemp("reviews")
    write_reviews(folder / "train.tsv", 300, 0)
    write_reviews(folder / "dev.tsv", 60, 1)
    told = regard(
        "train", "sentiment", "data.train=train.tsv", "data.valid=dev.tsv", *SMALL, "--out", "run", "--json", cwd=folder
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["scores"]["accuracy"] > 0.9
    assert "labels: 150 x " in told.stderr
    return folder


def test_texts_are_labelled_from_standard_input_and_from_files(reviews: Path, regard: Command) -> None:
    told = regard("classify", "run", input="a red house\nblack tree\n", cwd=reviews)
    assert [line.split("\t")[0] for line in told.stdout.splitlines()] == ["good", "bad"]
    (reviews / "in.txt").write_text("a red house\n")
    regard("classify", "run", "in.txt", "--json", "-o", "out.jsonl", cwd=reviews)
    found = json.loads((reviews / "out.jsonl").read_text())
    assert (found["text"], found["label"]) == ("a red house", "good")
    assert set(found["probabilities"]) == {"good", "bad"}


def test_vectors(reviews: Path, regard: Command) -> None:
    told = regard("embed", "run", input="a red house\nblack\n", cwd=reviews)
    rows = [[float(each) for each in line.split("\t")] for line in told.stdout.splitlines()]
    assert [len(row) for row in rows] == [32, 32]
    assert sum(each**2 for each in rows[0]) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("command", "given", "sentence"),
    [
        ("classify", "a\n\n", "standard input, line 2: the text is empty"),
        ("tag", "a\n", "holds a model for classification, not one that tags words"),
        ("answer", "a\tb\n", "holds a model for classification, not one that answers questions"),
        ("translate", "a\n", "holds a model for classification, not one that translates"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(
    reviews: Path, here: Command, command: str, given: str, sentence: str
) -> None:
    told = here(command, "run", input=given, cwd=reviews)
    assert told.returncode == 2
    assert sentence in told.stderr
    assert len(told.stderr.splitlines()) == 1
