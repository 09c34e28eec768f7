"""Writes random sentences for a copying task: source.txt and target.txt."""

import random
from pathlib import Path

WORDS = ("red", "blue", "green", "black", "white", "pink", "grey", "gold")


def main(count: int = 4000) -> None:
    generator = random.Random(1)
    lines = [" ".join(generator.choices(WORDS, k=generator.randint(3, 8))) for _ in range(count)]
    for name in ("source.txt", "target.txt"):
        Path(name).write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
