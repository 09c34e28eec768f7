"""A picture book in two languages: a German-English corpus made by a grammar, without any download."""

from collections.abc import Iterator

from regard.data.picturebook import english, german
from regard.data.picturebook.dice import Dice
from regard.data.picturebook.grammar import draw
from regard.data.picturebook.lexicon import lexemes
from regard.data.picturebook.meaning import Sentence
from regard.data.picturebook.splits import is_unseen, is_valid, unseen_combinations

__all__ = ["DEFAULT_COUNTS", "lexemes", "meanings", "pairs", "unseen_combinations"]

DEFAULT_COUNTS: dict[str, int] = {"train": 40_000, "valid": 1_000, "test": 1_000}

_PATIENCE = 10_000  # draws without a new sentence before the grammar counts as exhausted


def pairs(split: str, count: int | None = None, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Distinct German and English sentences of a split, the same for the same seed."""
    for meaning, translation in meanings(split, count, seed):
        yield german.sentence(meaning), translation


def meanings(split: str, count: int | None = None, seed: int = 0) -> Iterator[tuple[Sentence, str]]:
    """What the sentences of `pairs` say, in the same order, each with its English."""
    if split not in DEFAULT_COUNTS:
        raise ValueError(f"picturebook has no split {split!r}: choose one of {', '.join(DEFAULT_COUNTS)}")
    wanted = DEFAULT_COUNTS[split] if count is None else count
    dice = Dice(f"picturebook/{split}/{seed}")
    seen: set[str] = set()
    draws = 0
    while len(seen) < wanted:
        draws += 1
        if draws > _PATIENCE:
            raise ValueError(f"picturebook has no {wanted} distinct {split} sentences, only about {len(seen)}")
        meaning = draw(dice)
        if is_unseen(meaning) != (split == "test"):
            continue
        translation = english.sentence(meaning)
        if translation in seen or (split != "test" and is_valid(translation) != (split == "valid")):
            continue
        draws = 0
        seen.add(translation)
        yield meaning, translation
