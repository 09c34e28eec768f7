"""A fixture that runs commands in the test's process, and a translation run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.console import Command, Ended, run_command
from support.small_translation import write_corpus
from support.without_figures import without_figures

import regard


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the console script in `tmp_path`."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Ended:
        return run_command(arguments, monkeypatch, capsys)

    return call


@pytest.fixture(scope="session")
def translation_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Transformer of one layer, trained for three steps."""
    folder = tmp_path_factory.mktemp("translation")
    write_corpus(folder)
    with without_figures():
        regard.train("translation", folder / "run", overrides={
            "data.source": folder / "n.de", "data.target": folder / "n.en", "tokenizer.kind": "bpe", "tokenizer.vocab_size": 290,
            "model.max_length": 24, "model.encoder_layers": 1, "model.decoder_layers": 1, "model.d_model": 16,
            "model.heads": 2, "model.d_ff": 16, "train.steps": 3, "train.validate_every": 3,
        })  # fmt: skip
    return folder / "run"
