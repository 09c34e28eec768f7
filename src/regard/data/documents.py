"""Plain text as documents of sentences, and texts made of them to pre-train on: hidden words, what follows."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.examples import NOTHING, Example
from regard.data.lines import CorpusError, numbered_lines

FOLLOWS, FOREIGN = 0, 1
"""Whether the second part of a text is the one that follows the first."""

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“(\[]?\s?[^\W\d_a-z])")


def read_documents(path: Path) -> Iterator[list[str]]:
    """The documents of a file, plain or .gz, as sentences; blank lines stand between documents.

    A line may be a sentence or a paragraph: it is split where a sentence ends and a capital follows.
    """
    sentences: list[str] = []
    empty = True
    for _, line in numbered_lines(path):
        if line.strip():
            sentences += [" ".join(part.split()) for part in SENTENCE_END.split(line.strip())]
            empty = False
        elif sentences:
            yield sentences
            sentences = []
    if sentences:
        yield sentences
    if empty:
        raise CorpusError(f"{path} holds no text.")


@dataclass(frozen=True)
class Symbols:
    """The ids that hiding words asks for."""

    begin: int
    end: int
    mask: int
    ordinary: np.ndarray
    """Ids that stand for text: what a word may be replaced by."""
    continues: np.ndarray
    """For each id, whether it goes on with a word."""


@dataclass(frozen=True)
class Hiding:
    """How words are hidden."""

    share: float = 0.15
    whole_words: bool = False
    shown: float = 0.8
    """Of the hidden ones, how many become [MASK]."""
    replaced: float = 0.1
    """How many become another piece; the rest stays as it is."""

    def __call__(
        self, ids: np.ndarray, asked: np.ndarray, symbols: Symbols, chance: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ids as the model sees them, and what stood there, NOTHING where it is not asked.

        `asked` says which places may be hidden. Chance decides for each token, or for each word, by itself.
        """
        if self.whole_words:
            word = np.cumsum(~(symbols.continues[ids] & asked))
            chosen = asked & (chance.random(int(word[-1]) + 1 if len(word) else 1) < self.share)[word]
        else:
            chosen = asked & (chance.random(len(ids)) < self.share)
        marks = np.where(chosen, ids, NOTHING)
        draw = chance.random(len(ids))
        seen = np.where(chosen & (draw < self.shown), symbols.mask, ids)
        other = chance.choice(symbols.ordinary, len(ids))
        seen = np.where(chosen & (draw >= self.shown) & (draw < self.shown + self.replaced), other, seen)
        return seen, marks


class Documents:
    """Documents as ids, cut into stretches of neighbouring sentences that fit into one text.

    `load` makes texts of them with chance: where a stretch is parted in two, whether its second part is left
    or replaced by one of another document, and which words are hidden.
    """

    def __init__(
        self,
        documents: Iterable[Sequence[Sequence[int]]],
        longest: int,
        symbols: Symbols,
        hiding: Hiding,
        next_sentence: bool = True,
    ) -> None:
        """`documents` are sentences as ids; `longest` counts [CLS] and [SEP] too."""
        self.symbols, self.hiding, self.next_sentence = symbols, hiding, next_sentence
        self.room = longest - 3
        self.stretches: list[tuple[int, tuple[np.ndarray, ...]]] = []
        for number, document in enumerate(documents):
            self.stretches += [(number, stretch) for stretch in stretches(document, self.room)]
        self.documents = len({number for number, _ in self.stretches})

    def __len__(self) -> int:
        return len(self.stretches)

    def load(self, members: np.ndarray, chance: np.random.Generator) -> list[Example]:
        return [self.example(int(member), chance) for member in members]

    def example(self, member: int, chance: np.random.Generator) -> Example:
        """[CLS] A [SEP] B [SEP], or [CLS] A [SEP] where a stretch is one sentence only."""
        document, sentences = self.stretches[member]
        begin, end = [self.symbols.begin], [self.symbols.end]
        if not self.next_sentence or len(sentences) < 2 or self.documents < 2:
            ids = np.concatenate([begin, *sentences, end])
            return self.hidden(member, ids, len(ids), NOTHING, chance)
        parting = int(chance.integers(1, len(sentences)))
        first = np.concatenate(sentences[:parting])
        follows = chance.random() < 0.5
        second = np.concatenate(sentences[parting:]) if follows else self.foreign(document, chance)
        second = second[: max(1, self.room - len(first))]
        ids = np.concatenate([begin, first, end, second, end])
        return self.hidden(member, ids, len(first) + 2, FOLLOWS if follows else FOREIGN, chance)

    def foreign(self, document: int, chance: np.random.Generator) -> np.ndarray:
        """The end of a stretch of another document, from a sentence of it on."""
        while True:
            other, sentences = self.stretches[int(chance.integers(len(self.stretches)))]
            if other != document:
                return np.concatenate(sentences[int(chance.integers(len(sentences))) :])

    def hidden(
        self, member: int, ids: np.ndarray, second: int, follows: int, chance: np.random.Generator
    ) -> Example:
        asked = (ids != self.symbols.begin) & (ids != self.symbols.end)
        seen, marks = self.hiding(ids, asked, self.symbols, chance)
        return Example(member, seen, second, (follows,), marks)


def stretches(document: Sequence[Sequence[int]], room: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Neighbouring sentences while they fit; a sentence that is too long by itself is cut into several."""
    held: list[np.ndarray] = []
    used = 0
    for sentence in document:
        for first in range(0, len(sentence), room):
            ids = np.array(sentence[first : first + room], np.int64)
            if held and used + len(ids) > room:
                yield tuple(held)
                held, used = [], 0
            held.append(ids)
            used += len(ids)
    if held:
        yield tuple(held)
