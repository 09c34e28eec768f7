"""Models that read, small enough to train in seconds: labels, pairs, names, answers, vectors."""

from pathlib import Path

import regard
from regard.config.schema import parse_assignments
from support import small_texts
from support.small_texts import SMALL

EPOCHS = {
    "sentiment": ["data.train=train.tsv", "data.valid=dev.tsv", "train.epochs=6"],
    "inference": ["data.train=train-pairs.tsv", "data.valid=dev-pairs.tsv", "train.steps=10"],
    "ner": ["data.train=train.conll", "data.valid=dev.conll", "train.epochs=25"],
    "qa": [
        "data.train=train.json", "data.valid=dev.json", "train.epochs=8",
        "data.max_length=40", "data.overlap=8", "data.longest_question=8", "data.longest_answer=3",
    ],
}  # fmt: skip


def train_readers(folder: Path) -> dict[str, Path]:
    """Run folders by recipe."""
    files = folder / "files"
    files.mkdir()
    small_texts.write_labelled(files)
    small_texts.write_pairs(files)
    small_texts.write_tagged(files)
    small_texts.write_questions(files)
    for name, own in EPOCHS.items():
        regard.train(
            name,
            folder / name,
            overrides=parse_assignments([f"data.path={files}", *SMALL, "train.patience=0", *own]),
        )
    return {name: folder / name for name in EPOCHS}
