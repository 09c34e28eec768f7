"""A translation model small enough to train in seconds."""

from pathlib import Path

import regard
from regard.config.schema import parse_assignments

SMALL = [
    "data.source=n.de", "data.target=n.en", "tokenizer.kind=words", "model.encoder_layers=1", "model.decoder_layers=1",
    "model.d_model=32", "model.heads=2", "model.d_ff=64", "model.dropout=0", "train.steps=300", "train.lr=0.01",
    "train.warmup=50", "train.batch_tokens=512", "train.validate_every=100", "train.log_every=50", "train.smoothing=0",
]  # fmt: skip


def train(corpus: Path, out: Path, *more: str, **options):
    return regard.train(
        "translation", out, overrides=parse_assignments([f"data.path={corpus}", *SMALL, *more]), **options
    )
