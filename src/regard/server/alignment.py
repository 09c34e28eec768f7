"""Which words of a text its translation's words looked at, and where in the two texts they stand."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.viz.attention_maps import AttentionMaps

FAINT = 0.01
"""A weight below this is not told: nobody would see it."""


@dataclass(frozen=True)
class Aligned:
    """Words of both sides, and (target word, source word, weight) where one looked at the other."""

    source: list[str]
    target: list[str]
    links: list[tuple[int, int, float]]


def aligned(maps: AttentionMaps) -> Aligned:
    """The words of one sentence, without the end that both sides have."""
    layer = maps.layers[maps.alignment_layer].in_words()
    weights = layer.weights.mean(0)[:-1, :-1]
    links = [
        (target, source, round(float(weight), 4))
        for target, row in enumerate(weights)
        for source, weight in enumerate(row)
        if weight >= FAINT
    ]
    return Aligned(list(layer.keys.words[:-1]), list(layer.queries.words[:-1]), links)


def joined(parts: Sequence[Aligned]) -> Aligned:
    """One alignment from those of a text's parts, which stand one after another on both sides."""
    source: list[str] = []
    target: list[str] = []
    links: list[tuple[int, int, float]] = []
    for part in parts:
        links += [(row + len(target), column + len(source), weight) for row, column, weight in part.links]
        source += part.source
        target += part.target
    return Aligned(source, target, links)


def places(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where each word stands in the text, as (from, to) counted in characters, one after another.

    A word that the text does not have, because the model does not know it or writes it otherwise, stands for
    what lies between its neighbours.
    """
    text = folded(text)
    begins: list[int] = []  # -1 for a word that is not there
    end = 0
    for word in words:
        begins.append(text.find(folded(word), end))
        if begins[-1] >= 0:
            end = begins[-1] + len(word)
    told: list[tuple[int, int]] = []
    end = 0
    for number, (word, begin) in enumerate(zip(words, begins, strict=True)):
        if begin >= 0:
            told.append((begin, begin + len(word)))
        else:
            after = next((later for later in begins[number:] if later >= 0), len(text))
            told.append(between(text, end, after))
        end = told[-1][1]
    return told


def between(text: str, begin: int, end: int) -> tuple[int, int]:
    """The part of a text without the blanks around it."""
    part = text[begin:end]
    if not part.strip():
        return begin, begin
    return begin + len(part) - len(part.lstrip()), begin + len(part.rstrip())


def folded(text: str) -> str:
    """Lower case, as long as the text itself."""
    return "".join(lower if len(lower := character.lower()) == 1 else character for character in text)
