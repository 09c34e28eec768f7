"""Number words in German and English as parallel files, and a translation model that learns them in seconds."""

import random
from pathlib import Path

import torch

import regard
from regard.config.schema import parse_assignments

GERMAN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht"]
ENGLISH = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
SMALL = [
    "data.source=n.de", "data.target=n.en", "tokenizer.kind=words", "model.encoder_layers=1", "model.decoder_layers=1",
    "model.d_model=32", "model.heads=2", "model.d_ff=64", "model.dropout=0", "train.steps=300", "train.lr=0.01",
    "train.warmup=50", "train.batch_tokens=512", "train.validate_every=100", "train.log_every=50", "train.smoothing=0",
]  # fmt: skip


def write_numbers(folder: Path, pairs: int) -> None:
    """`n.de` and `n.en`: one to five of seven number words per line."""
    generator = random.Random(0)
    rows = [[generator.randrange(7) for _ in range(generator.randrange(1, 6))] for _ in range(pairs)]
    write_rows(folder, rows)


def write_corpus(folder: Path, count: int = 1500) -> None:
    """`n.de` and `n.en`: one to five of eight number words per line, with a full stop."""
    generator = torch.Generator().manual_seed(0)
    rows = [
        torch.randint(0, 8, (int(length),), generator=generator).tolist()
        for length in torch.randint(1, 6, (count,), generator=generator)
    ]
    write_rows(folder, rows, end=".")


def write_rows(folder: Path, rows: list[list[int]], end: str = "") -> None:
    for name, words in (("n.de", GERMAN), ("n.en", ENGLISH)):
        text = "".join(" ".join(words[number] for number in row) + f"{end}\n" for row in rows)
        (folder / name).write_text(text, "utf-8")


def train(corpus: Path, out: Path, *assignments: str, **options):
    """Trains the small model on the corpus of `write_corpus`."""
    overrides = parse_assignments([f"data.path={corpus}", *SMALL, *assignments])
    return regard.train("translation", out, overrides=overrides, **options)
