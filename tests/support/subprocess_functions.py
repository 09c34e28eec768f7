"""Functions that tests run in child processes, which import them by name."""

import multiprocessing.synchronize
import time
from pathlib import Path

from regard import storage
from regard.data.token_store import open_or_build

PAIRS = [(" ".join(["a"] * (1 + i % 7)), " ".join(["b"] * (1 + i % 5))) for i in range(103)]
SIZES = (20, 20)


def lengths(texts: list[str]) -> list[list[int]]:
    return [[10 + position for position in range(len(text.split()))] for text in texts]


def build_store_slowly(folder: Path) -> int:
    """Builds a token store with slow encoding; returns how many pairs this process encoded."""
    encoded = 0

    def encode(texts: list[str]) -> list[list[int]]:
        nonlocal encoded
        encoded += len(texts)
        time.sleep(0.05)
        return lengths(texts)

    assert len(open_or_build(folder, lambda: PAIRS, encode, lengths, SIZES, part=10)) == 103
    return encoded


def hold_lock(
    folder: Path, ready: "multiprocessing.synchronize.Event", go: "multiprocessing.synchronize.Event"
) -> None:
    """Holds the lock of a folder until `go` is set."""
    with storage.exclusive_lock(folder, str):
        ready.set()
        go.wait(30)
