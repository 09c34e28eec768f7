"""A language small enough to learn in seconds: German numbers and their English."""

from pathlib import Path

import torch

NUMBERS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht"]
ENGLISH = ["one", "two", "three", "four", "five", "six", "seven", "eight"]


def write_corpus(folder: Path, count: int = 1500) -> None:
    chance = torch.Generator().manual_seed(0)
    rows = [
        torch.randint(0, 8, (int(n),), generator=chance).tolist()
        for n in torch.randint(1, 6, (count,), generator=chance)
    ]
    (folder / "n.de").write_text("".join(" ".join(NUMBERS[i] for i in row) + ".\n" for row in rows), "utf-8")
    (folder / "n.en").write_text("".join(" ".join(ENGLISH[i] for i in row) + ".\n" for row in rows), "utf-8")
