"""A model that translates German numbers, trained once, and a server for it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.live_server import LiveServer, run_server
from support.small_text_tasks import train_text_tasks
from support.without_figures import without_figures

import regard


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder; the words are those of tests/support/small_translation.py, in random order."""
    import random

    german = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben"]
    english = ["one", "two", "three", "four", "five", "six", "seven"]
    folder = tmp_path_factory.mktemp("served")
    sampling = random.Random(0)
    rows = [[sampling.randrange(7) for _ in range(sampling.randrange(1, 6))] for _ in range(1000)]
    for name, words in (("n.de", german), ("n.en", english)):
        text = "".join(" ".join(words[number] for number in row) + "\n" for row in rows)
        (folder / name).write_text(text, "utf-8")
    with without_figures(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        regard.train("translation", folder / "numbers", overrides={
            "data.source": "n.de", "data.target": "n.en", "tokenizer.kind": "words",
            "data.source_language": "de", "data.target_language": "en", "train.optimizer": "adam",
            "model.dropout": 0.1, "tokenizer.min_count": 1, "model.encoder_layers": 1,
            "model.decoder_layers": 1, "model.d_model": 32, "model.heads": 2, "model.d_ff": 64,
            "model.max_length": 24, "train.steps": 250, "train.lr": 0.01, "train.warmup": 40,
            "train.batch_tokens": 512, "train.validate_every": 125,
        })  # fmt: skip
    return folder / "numbers"


@pytest.fixture(scope="session")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run folders of encoders, by recipe."""
    with without_figures():
        return train_text_tasks(tmp_path_factory.mktemp("encoders"))


@pytest.fixture(scope="session")
def server(run: Path) -> Iterator[LiveServer]:
    with run_server({"numbers": run}) as server:
        yield server


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client
