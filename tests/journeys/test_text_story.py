"""BERT's tasks through the command line: train, classify files and standard input, embed; mistakes."""

import json
import random
import re
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
    """Texts with one colour word, which decides the label."""
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
    done = regard(
        "train", "sentiment", "data.train=train.tsv", "data.valid=dev.tsv", *SMALL, "--out", "run", "--json", cwd=folder
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"]["accuracy"] > 0.9
    assert "labels: 150 x " in done.stderr
    return folder


def test_texts_are_classified_from_standard_input_and_from_files(reviews: Path, regard: Command) -> None:
    done = regard("classify", "run", input="a red house\nblack tree\n", cwd=reviews)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["good", "bad"]
    (reviews / "in.txt").write_text("a red house\n")
    regard("classify", "run", "in.txt", "--json", "-o", "out.jsonl", cwd=reviews)
    row = json.loads((reviews / "out.jsonl").read_text())
    assert (row["text"], row["label"]) == ("a red house", "good")
    assert set(row["probabilities"]) == {"good", "bad"}


def test_unknown_words_are_reported(reviews: Path, regard: Command) -> None:
    for command in ("classify", "embed"):
        done = regard(command, "run", input="a red house\na red шляпа\n", cwd=reviews)
        assert len(done.stdout.splitlines()) == 2
        assert re.fullmatch(
            r"regard: standard input, line 2: 1 of 3 words is not in the model's vocabulary "
            r"\(\d+ subwords\): шляпа\n",
            done.stderr,
        )


def test_embeddings_are_normalised(reviews: Path, regard: Command) -> None:
    done = regard("embed", "run", input="a red house\nblack\n", cwd=reviews)
    rows = [[float(value) for value in line.split("\t")] for line in done.stdout.splitlines()]
    assert [len(row) for row in rows] == [32, 32]
    assert sum(value**2 for value in rows[0]) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("command", "text", "sentence"),
    [
        ("classify", "a\n\n", "standard input, line 2: the text is empty"),
        ("tag", "a\n", "holds a model for classification, not one that tags words"),
        ("answer", "a\tb\n", "holds a model for classification, not one that answers questions"),
        ("translate", "a\n", "holds a model for classification, not one that translates"),
    ],
)
def test_unsupported_commands_are_refused_in_one_line(
    reviews: Path, here: Command, command: str, text: str, sentence: str
) -> None:
    done = here(command, "run", input=text, cwd=reviews)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
