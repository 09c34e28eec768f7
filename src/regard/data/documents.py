"""Texts to pre-train on, made of documents: which words are hidden, and what follows what."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from regard.data.examples import NOTHING, Example
from regard.data.store import TokenStore

FOLLOWS, FOREIGN = 0, 1
"""Whether the second part of a text is the one that follows the first."""


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
        self, ids: np.ndarray, asked: np.ndarray, symbols: Symbols, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ids as the model sees them, and what stood there, NOTHING where it is not asked.

        `asked` says which places may be hidden. Chance decides for each token, or for each word, by itself.
        """
        if self.whole_words:
            word = np.cumsum(~(symbols.continues[ids] & asked))
            chosen = asked & (rng.random(int(word[-1]) + 1 if len(word) else 1) < self.share)[word]
        else:
            chosen = asked & (rng.random(len(ids)) < self.share)
        marks = np.where(chosen, ids, NOTHING)
        draw = rng.random(len(ids))
        seen = np.where(chosen & (draw < self.shown), symbols.mask, ids)
        other = rng.choice(symbols.ordinary, len(ids))
        seen = np.where(chosen & (draw >= self.shown) & (draw < self.shown + self.replaced), other, seen)
        return seen, marks


STRETCH = np.dtype([("first", np.int64), ("skip", np.int32), ("sentences", np.int32)])
"""A first sentence, how many of its tokens lie before the stretch, and how many sentences it goes over."""


class Documents:
    """Sentences of a token store, in stretches of neighbours of one document that fit into one text.

    `load` makes texts of them with chance: where a stretch is parted in two, whether its second part is left
    or replaced by one of another document, and which words are hidden.
    """

    def __init__(
        self, store: TokenStore, max_length: int, symbols: Symbols, hiding: Hiding, next_sentence: bool = True
    ) -> None:
        """The store pairs sentences with their document's number; `max_length` counts [CLS] and [SEP] too."""
        self.store, self.symbols, self.hiding, self.next_sentence = store, symbols, hiding, next_sentence
        self.room = max_length - 3
        found = [self.stretches_in(part) for part in store.parts()]
        self.stretches = np.concatenate([np.zeros(0, STRETCH), *found])
        self.borders = np.cumsum([0, *map(len, found)]).tolist()
        self.followed = np.flatnonzero(self.stretches["sentences"] > 1)
        """Stretches in which something follows: the second parts of all texts come from these."""
        ends = (self.stretches[self.followed[place]] for place in (0, -1)) if len(self.followed) else ()
        self.several = len({self.document(each) for each in ends}) > 1
        """Whether they are of more than one document."""

    def stretches_in(self, part: range) -> np.ndarray:
        lengths, documents = self.store.source.lengths(part), self.store.target.flat(part)
        if (self.store.target.lengths(part) != 1).any():
            raise self.store.target.damage(part, "a sentence has not one document number")
        found = np.array(list(stretches(lengths, documents, self.room)), STRETCH)
        found["first"] += part.start
        return found

    def __len__(self) -> int:
        return len(self.stretches)

    def parts(self) -> list[range]:
        """The numbers of the stretches that lie in one part of the store."""
        return [range(*borders) for borders in pairwise(self.borders)]

    def load(self, members: np.ndarray, rng: np.random.Generator) -> list[Example]:
        return [self.example(int(member), rng) for member in members]

    def document(self, stretch: np.void) -> int:
        return int(self.store.target.sentence(int(stretch["first"]))[0])

    def sentences(self, stretch: np.void) -> list[np.ndarray]:
        """The ids of each sentence, of a long one the part that belongs here; empty ones are left out."""
        first, skip = int(stretch["first"]), int(stretch["skip"])
        whole = [self.store.source.sentence(first + place) for place in range(int(stretch["sentences"]))]
        whole[0] = whole[0][skip : skip + self.room]
        return [ids.astype(np.int64) for ids in whole if len(ids)]

    def example(self, member: int, rng: np.random.Generator) -> Example:
        """[CLS] A [SEP] B [SEP], or [CLS] A [SEP] where a stretch is one sentence only."""
        stretch = self.stretches[member]
        sentences = self.sentences(stretch)
        begin, end = [self.symbols.begin], [self.symbols.end]
        if not self.next_sentence or len(sentences) < 2 or not self.several:
            ids = np.concatenate([begin, *sentences, end])
            return self.hidden(member, ids, len(ids), NOTHING, rng)
        parting = int(rng.integers(1, len(sentences)))
        first = np.concatenate(sentences[:parting])
        follows = rng.random() < 0.5
        room = self.room - len(first)
        second = np.concatenate(sentences[parting:]) if follows else self.foreign(stretch, room, rng)
        ids = np.concatenate([begin, first, end, second, end])
        return self.hidden(member, ids, len(first) + 2, FOLLOWS if follows else FOREIGN, rng)

    def foreign(self, stretch: np.void, room: int, rng: np.random.Generator) -> np.ndarray:
        """Sentences of another document, as many as fit.

        They follow something there, and end where a sentence ends, as those do that follow here: neither their
        kind nor their length tells them apart, only what they say.
        """
        own = self.document(stretch)
        while True:
            other = self.stretches[int(rng.choice(self.followed))]
            if self.document(other) != own:
                begin = int(other["first"]) + int(rng.integers(1, other["sentences"]))
                if len(found := self.fitting(begin, room)):
                    return found

    def fitting(self, begin: int, room: int) -> np.ndarray:
        """The sentences of one document from `begin` on, as many as fit; the first is cut where it does not."""
        document, found, used = self.store.target.sentence(begin)[0], [], 0
        for number in range(begin, len(self.store)):
            ids = self.store.source.sentence(number)
            if self.store.target.sentence(number)[0] != document or (used and used + len(ids) > room):
                break
            found.append(ids[:room])
            used += len(ids)
        return np.concatenate(found).astype(np.int64)

    def hidden(
        self, member: int, ids: np.ndarray, second: int, follows: int, rng: np.random.Generator
    ) -> Example:
        asked = (ids != self.symbols.begin) & (ids != self.symbols.end)
        seen, marks = self.hiding(ids, asked, self.symbols, rng)
        return Example(member, seen, second, (follows,), marks)


def stretches(lengths: np.ndarray, documents: np.ndarray, room: int) -> Iterator[tuple[int, int, int]]:
    """Neighbouring sentences of one document while they fit; one that is too long by itself is cut.

    Each as in STRETCH: its first sentence, how many tokens of that lie before it, how many sentences it has.
    """
    first = skip = used = 0
    last, own = -1, None  # the last sentence of the stretch that is open, and its document
    for place, (length, document) in enumerate(zip(lengths.tolist(), documents.tolist(), strict=True)):
        for begin in range(0, length, room):
            size = min(room, length - begin)
            if document != own or used + size > room:
                if last >= 0:
                    yield first, skip, last + 1 - first
                first, skip, used, own = place, begin, 0, document
            used += size
            last = place
    if last >= 0:
        yield first, skip, last + 1 - first
