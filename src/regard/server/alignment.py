"""Word alignments from attention weights, and the character spans of words in a text."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.viz.attention_maps import AttentionMaps

MIN_WEIGHT = 0.01
"""Smaller weights are left out: they would not be visible."""


@dataclass(frozen=True)
class Alignment:
    """Words of both texts, and (index of target word, index of source word, weight)."""

    source: list[str]
    target: list[str]
    links: list[tuple[int, int, float]]


def word_alignment(maps: AttentionMaps) -> Alignment:
    """The alignment of one sentence, without the end tokens."""
    layer = maps.layers[maps.alignment_layer].in_words()
    weights = layer.weights.mean(0)[:-1, :-1]
    links = [
        (target, source, round(float(weight), 4))
        for target, row in enumerate(weights)
        for source, weight in enumerate(row)
        if weight >= MIN_WEIGHT
    ]
    return Alignment(list(layer.keys.words[:-1]), list(layer.queries.words[:-1]), links)


def concatenate(alignments: Sequence[Alignment]) -> Alignment:
    """The alignment of a text from those of its consecutive parts."""
    source: list[str] = []
    target: list[str] = []
    links: list[tuple[int, int, float]] = []
    for part in alignments:
        links += [(row + len(target), column + len(source), weight) for row, column, weight in part.links]
        source += part.source
        target += part.target
    return Alignment(source, target, links)


def word_spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Start and end of each word in the text, in characters; spans are in order and do not overlap.

    A word that does not occur in the text, such as an unknown one, gets the gap between its neighbours.
    """
    text = lower_case(text)
    starts: list[int] = []  # -1 if the word does not occur
    end = 0
    for word in words:
        starts.append(text.find(lower_case(word), end))
        if starts[-1] >= 0:
            end = starts[-1] + len(word)
    spans: list[tuple[int, int]] = []
    end = 0
    for index, (word, start) in enumerate(zip(words, starts, strict=True)):
        if start >= 0:
            spans.append((start, start + len(word)))
        else:
            next_start = next((later for later in starts[index:] if later >= 0), len(text))
            spans.append(stripped_span(text, end, next_start))
        end = spans[-1][1]
    return spans


def stripped_span(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without white space at its ends."""
    part = text[start:end]
    if not part.strip():
        return start, start
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def lower_case(text: str) -> str:
    """Lower case, of the same length as the text."""
    return "".join(lower if len(lower := character.lower()) == 1 else character for character in text)
