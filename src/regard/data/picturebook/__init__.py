"""The picturebook corpus: German-English sentence pairs sampled from a grammar; nothing is downloaded.

A template (`simple_sentences`, `complex_sentences`) samples a meaning (`semantics`), from which `german` and
`english` each realize a sentence. `clauses`, `noun_phrases`, `relative_clauses` and `adjuncts` sample its parts
from the `lexicon`.
"""

from collections.abc import Iterator

from regard.data.picturebook import english, german
from regard.data.picturebook.complex_sentences import sample_sentence
from regard.data.picturebook.lexicon import lexemes
from regard.data.picturebook.sampling import Rng
from regard.data.picturebook.semantics import Sentence
from regard.data.picturebook.splits import is_unseen, is_valid, unseen_combinations

__all__ = ["DEFAULT_COUNTS", "lexemes", "meanings", "pairs", "unseen_combinations"]

DEFAULT_COUNTS: dict[str, int] = {"train": 40_000, "valid": 1_000, "test": 1_000}

_MAX_REJECTIONS = 10_000  # samples without a new sentence after which the grammar counts as exhausted


def pairs(split: str, count: int | None = None, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Distinct (German, English) sentences of a split: `train`, `valid` or `test`.

    Args:
        split: Name of the split.
        count: Number of pairs; the split's default size where it is None.
        seed: Seed of the samples; the same seed gives the same pairs on every machine.

    Raises:
        ValueError: The split is unknown, or the grammar has fewer distinct sentences.
    """
    for meaning, translation in meanings(split, count, seed):
        yield german.realize(meaning), translation


def meanings(split: str, count: int | None = None, seed: int = 0) -> Iterator[tuple[Sentence, str]]:
    """The meanings of the sentences of `pairs`, in the same order, each with its English sentence."""
    if split not in DEFAULT_COUNTS:
        raise ValueError(f"picturebook has no split {split!r}: choose one of {', '.join(DEFAULT_COUNTS)}")
    wanted = DEFAULT_COUNTS[split] if count is None else count
    rng = Rng(f"picturebook/{split}/{seed}")
    seen: set[str] = set()
    rejections = 0
    while len(seen) < wanted:
        rejections += 1
        if rejections > _MAX_REJECTIONS:
            raise ValueError(f"picturebook has no {wanted} distinct {split} sentences, only about {len(seen)}")
        meaning = sample_sentence(rng)
        if is_unseen(meaning) != (split == "test"):
            continue
        translation = english.realize(meaning)
        if translation in seen or (split != "test" and is_valid(translation) != (split == "valid")):
            continue
        rejections = 0
        seen.add(translation)
        yield meaning, translation
