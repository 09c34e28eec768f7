"""Two line-aligned files of German numbers and their English."""

import random
from pathlib import Path

GERMAN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben"]
ENGLISH = ["one", "two", "three", "four", "five", "six", "seven"]


def write_numbers(folder: Path, pairs: int) -> None:
    """`n.de` and `n.en`."""
    chance = random.Random(0)
    rows = [[chance.randrange(7) for _ in range(chance.randrange(1, 6))] for _ in range(pairs)]
    for name, words in (("n.de", GERMAN), ("n.en", ENGLISH)):
        (folder / name).write_text("".join(" ".join(words[i] for i in row) + "\n" for row in rows), "utf-8")
