"""Sentences for tokenizer tests: a few written here, and Multi30k if it is available."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

_SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"

_SUBJECTS = ("Two dogs", "A young man", "The farmers' children", "Zwei Hunde", "Ein junger Mann", "L'homme")
_DEEDS = ("don't play", "is running", "spielen", "läuft schnell", "court vite", "waits for 3.14 seconds")
_PLACES = (
    "in the snow.",
    "at John's Pizza!",
    "auf der Straße.",
    "„am See“.",
    "près de l'eau...",
    "(in Paris)?",
)


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """216 small sentences in three languages."""
    return [f"{who} {does} {where}" for who in _SUBJECTS for does in _DEEDS for where in _PLACES]


@pytest.fixture(scope="session")
def multi30k() -> Callable[[str, str], list[str]]:
    """Lines of a split in a language; skips where the data is absent."""
    folder = Path(os.environ.get("REGARD_DATA", _SHARED)) / "multi30k"

    def lines(split: str, language: str) -> list[str]:
        file = folder / f"{split}.{language}.gz"
        if not file.exists():
            pytest.skip(f"Multi30k is not at {folder}; set REGARD_DATA to the folder above it")
        return gzip.decompress(file.read_bytes()).decode().split("\n")[:-1]

    return lines
