"""BPE-dropout (Provilkov et al. 2020) that repeats to the bit; the tokenizers library draws unseeded.

The library's plain encoding tells the words; each word is taken apart into its characters and merged anew,
every merge being skipped with the probability given.
"""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import tokenizers


class MergeTable:
    """The merges of a BPE tokenizer, as pairs of ids with their rank and the id they make."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        model = json.loads(library.to_str())["model"]
        vocabulary: dict[str, int] = model["vocab"]
        self._pairs = {
            (vocabulary[left], vocabulary[right]): (rank, vocabulary[left + right])
            for rank, (left, right) in enumerate(map(_pair, model["merges"]))
        }
        self._vocabulary = vocabulary
        self._spelling = {place: piece for piece, place in vocabulary.items()}
        self._made = {made for _, made in self._pairs.values()}
        self._atoms: dict[tuple[int, ...], list[int]] = {}

    def resample(
        self, ids: Sequence[int], word_of: Sequence[int | None], dropout: float, random: Random
    ) -> list[int]:
        """Other pieces of the same text; `word_of` names the word each of the plain pieces belongs to."""
        sampled: list[int] = []
        draw = random.random
        start = 0
        for place in range(1, len(ids) + 1):
            if place == len(ids) or word_of[place] != word_of[start]:
                sampled += self._word(tuple(ids[start:place]), dropout, draw)
                start = place
        return sampled

    def _word(self, plain: tuple[int, ...], dropout: float, draw: Callable[[], float]) -> Sequence[int]:
        """One word anew. How many merges pass before the first skip is a single draw: mostly all of them."""
        atoms = self._atoms.get(plain)
        if atoms is None:
            atoms = self._atoms[plain] = self._take_apart(plain)
        merges = len(atoms) - len(plain)
        if not merges or not dropout:
            return plain
        if dropout >= 1:
            return atoms
        chance, passing, still = draw(), 0, 1.0 - dropout
        while passing < merges and chance < still:  # products, not logarithms: the same on every machine
            passing, still = passing + 1, still * (1.0 - dropout)
        return plain if passing >= merges else self._merge(list(atoms), passing, dropout, draw)

    def _merge(self, word: list[int], passing: int, dropout: float, draw: Callable[[], float]) -> list[int]:
        """Merge best pair first; `passing` candidates are taken, the next is skipped, then chance decides."""
        lookup = self._pairs.get
        while len(word) > 1:
            found = [
                (pair[0], place, pair[1])
                for place, pair in enumerate(map(lookup, pairwise(word)))
                if pair is not None
            ]
            found.sort()
            for _, place, made in found:
                passing -= 1
                if passing >= 0 or (passing < -1 and draw() >= dropout):
                    word[place : place + 2] = [made]
                    break
            else:
                return word
        return word

    def _take_apart(self, plain: tuple[int, ...]) -> list[int]:
        """Characters of a word's pieces; bytes and <unk>, which no merge makes, are whole already."""
        vocabulary = self._vocabulary
        return [
            atom
            for piece in plain
            for atom in (
                [vocabulary[letter] for letter in self._spelling[piece]] if piece in self._made else [piece]
            )
        ]


def _pair(merge: str | list[str]) -> tuple[str, str]:
    """Older files write a merge as one string with a blank in it."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right
