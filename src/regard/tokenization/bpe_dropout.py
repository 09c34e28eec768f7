"""Reproducible BPE-dropout (Provilkov et al. 2020); the tokenizers library draws without a seed.

Words are taken from the library's encoding without dropout. Each word is split into characters and merged
again, and every merge is skipped with the dropout probability.
"""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import tokenizers


class MergeTable:
    """The merges of a BPE tokenizer: pairs of ids with their rank and the id of the merged piece."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        model = json.loads(library.to_str())["model"]
        vocabulary: dict[str, int] = model["vocab"]
        self._pairs = {
            (vocabulary[left], vocabulary[right]): (rank, vocabulary[left + right])
            for rank, (left, right) in enumerate(map(merge_pair, model["merges"]))
        }
        self._vocabulary = vocabulary
        self._pieces = {number: piece for piece, number in vocabulary.items()}
        self._merged = {merged for _, merged in self._pairs.values()}
        self._characters: dict[tuple[int, ...], list[int]] = {}

    def resample(
        self, ids: Sequence[int], word_ids: Sequence[int | None], dropout: float, random: Random
    ) -> list[int]:
        """Encode a text again, with dropout.

        Args:
            ids: Its pieces without dropout.
            word_ids: The word that each piece belongs to.
            dropout: Probability of skipping a merge.
            random: Random number generator.
        """
        sampled: list[int] = []
        draw = random.random
        start = 0
        for end in range(1, len(ids) + 1):
            if end == len(ids) or word_ids[end] != word_ids[start]:
                sampled += self._resample_word(tuple(ids[start:end]), dropout, draw)
                start = end
        return sampled

    def _resample_word(
        self, plain: tuple[int, ...], dropout: float, draw: Callable[[], float]
    ) -> Sequence[int]:
        """One word with dropout; the number of merges before the first skipped one takes a single draw."""
        characters = self._characters.get(plain)
        if characters is None:
            characters = self._characters[plain] = self._split_characters(plain)
        merges = len(characters) - len(plain)
        if not merges or not dropout:
            return plain
        if dropout >= 1:
            return characters
        number, kept, probability = draw(), 0, 1.0 - dropout
        while kept < merges and number < probability:  # products, not logarithms: equal on every machine
            kept, probability = kept + 1, probability * (1.0 - dropout)
        return plain if kept >= merges else self._merge(list(characters), kept, dropout, draw)

    def _merge(self, word: list[int], kept: int, dropout: float, draw: Callable[[], float]) -> list[int]:
        """Merge by rank: `kept` merges are applied, the next one is skipped, the others are drawn."""
        lookup = self._pairs.get
        while len(word) > 1:
            candidates = [
                (pair[0], position, pair[1])
                for position, pair in enumerate(map(lookup, pairwise(word)))
                if pair is not None
            ]
            candidates.sort()
            for _, position, merged in candidates:
                kept -= 1
                if kept >= 0 or (kept < -1 and draw() >= dropout):
                    word[position : position + 2] = [merged]
                    break
            else:
                return word
        return word

    def _split_characters(self, plain: tuple[int, ...]) -> list[int]:
        """Ids of the characters of a word; byte tokens and <unk>, which no merge produces, stay whole."""
        vocabulary = self._vocabulary
        return [
            character
            for piece in plain
            for character in (
                [vocabulary[letter] for letter in self._pieces[piece]] if piece in self._merged else [piece]
            )
        ]


def merge_pair(merge: object) -> tuple[str, str]:
    """The two pieces of a merge, which older files store as one string with a blank.

    Raises:
        ValueError: It is not a pair of pieces.
    """
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        raise ValueError("one of its merges is not a pair of pieces")
    return parts[0], parts[1]
