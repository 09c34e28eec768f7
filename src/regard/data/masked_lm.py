"""Examples for BERT pre-training (Devlin et al. 2019): sentence pairs and token masking."""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from regard.data.examples import IGNORE_INDEX, Example
from regard.data.text_files import CorpusError, numbered_lines
from regard.data.token_store import TokenStore

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“(\[]?\s?[^\W\d_a-z])")


def read_sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The sentences of a file, plain or .gz, with their document's number; blank lines separate documents.

    A line may be a sentence or a paragraph: it is split after a sentence end that a capital letter follows.
    """
    document, within = -1, False
    for _, line in numbered_lines(path):
        if not line.strip():
            within = False
            continue
        document += not within
        within = True
        for part in SENTENCE_END.split(line.strip()):
            yield document, " ".join(part.split())
    if document < 0:
        raise CorpusError(f"{path} holds no text")


class DocumentFile:
    """The documents of a file whose first sentence satisfies `belongs`, read whenever they are iterated."""

    def __init__(self, path: Path, belongs: Callable[[str], bool] = lambda first: True) -> None:
        self.path, self.belongs = path, belongs
        self.documents = self.sentences = 0
        digest, last = hashlib.sha256(), -1
        for number, sentence in self:
            self.documents += number != last
            self.sentences += 1
            digest.update(f"{number}\n{sentence}\n".encode())
            last = number
        self.fingerprint = digest.hexdigest()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Every sentence with the number of its document."""
        last, belongs = -1, True
        for number, sentence in read_sentences(self.path):
            if number != last:
                last, belongs = number, self.belongs(sentence)
            if belongs:
                yield number, sentence

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Pairs for a token store: a sentence and its document's number."""
        return ((sentence, str(number)) for number, sentence in self)


FOLLOWS, FOREIGN = 0, 1
"""Labels of a sentence pair: whether the second part follows the first, or is from another document."""


@dataclass(frozen=True)
class MaskingSymbols:
    """The token ids that masking needs."""

    begin: int
    end: int
    mask: int
    ordinary: np.ndarray
    """Ids of text, without special tokens: random replacements are drawn from these."""
    continues: np.ndarray
    """For each id, whether it continues a word."""


@dataclass(frozen=True)
class TokenMasking:
    """BERT's token masking: which tokens are predicted, and what replaces them in the input."""

    probability: float = 0.15
    """Probability that a token, or whole word, is chosen."""
    whole_words: bool = False
    mask_fraction: float = 0.8
    """Fraction of the chosen tokens that becomes [MASK]."""
    random_fraction: float = 0.1
    """Fraction that becomes a random token; the rest stays unchanged."""

    def __call__(
        self, ids: np.ndarray, maskable: np.ndarray, symbols: MaskingSymbols, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Masked ids, and labels: the original id of each chosen token, IGNORE_INDEX elsewhere.

        Args:
            ids: (tokens,).
            maskable: (tokens,), which tokens may be chosen; each, or each whole word, is chosen independently.
            symbols: Ids of [MASK] and of the replacements.
            rng: Random generator.
        """
        if self.whole_words:
            word = np.cumsum(~(symbols.continues[ids] & maskable))
            chosen = maskable & (rng.random(int(word[-1]) + 1 if len(word) else 1) < self.probability)[word]
        else:
            chosen = maskable & (rng.random(len(ids)) < self.probability)
        labels = np.where(chosen, ids, IGNORE_INDEX)
        draw = rng.random(len(ids))
        masked = np.where(chosen & (draw < self.mask_fraction), symbols.mask, ids)
        random_ids = rng.choice(symbols.ordinary, len(ids))
        replaced = (draw >= self.mask_fraction) & (draw < self.mask_fraction + self.random_fraction)
        masked = np.where(chosen & replaced, random_ids, masked)
        return masked, labels


SPAN = np.dtype([("first", np.int64), ("skip", np.int32), ("sentences", np.int32)])
"""A span: its first sentence, how many tokens of that are skipped, and its number of sentences."""


class MaskedLmExamples:
    """Random pre-training examples from a token store of sentences.

    A span holds neighbouring sentences of one document that fit into one example. `load` draws at random where
    the span is split in two, whether its second part comes from another document, and the masked tokens.
    """

    def __init__(
        self,
        store: TokenStore,
        max_length: int,
        symbols: MaskingSymbols,
        masking: TokenMasking,
        next_sentence: bool = True,
    ) -> None:
        """The store pairs each sentence with its document's number; `max_length` includes [CLS] and [SEP]."""
        self.store, self.symbols, self.masking, self.next_sentence = store, symbols, masking, next_sentence
        self.max_tokens = max_length - 3
        spans_per_part = [self.spans_in(part) for part in store.parts()]
        self.spans = np.concatenate([np.zeros(0, SPAN), *spans_per_part])
        self.boundaries = np.cumsum([0, *map(len, spans_per_part)]).tolist()
        self.pairable = np.flatnonzero(self.spans["sentences"] > 1)
        """Indices of spans of several sentences, which can be split into a pair."""
        ends = (self.spans[self.pairable[index]] for index in (0, -1)) if len(self.pairable) else ()
        self.several_documents = len({self.document(span) for span in ends}) > 1
        """Whether these spans are from more than one document."""

    def spans_in(self, part: range) -> np.ndarray:
        lengths, documents = self.store.source.lengths(part), self.store.target.flat(part)
        if (self.store.target.lengths(part) != 1).any():
            raise self.store.target.damage(part, "a sentence has no document number, or several")
        spans_of_part = np.array(list(spans(lengths, documents, self.max_tokens)), SPAN)
        spans_of_part["first"] += part.start
        return spans_of_part

    def __len__(self) -> int:
        return len(self.spans)

    def parts(self) -> list[range]:
        """Ranges of the spans in each part of the store."""
        return [range(*boundaries) for boundaries in pairwise(self.boundaries)]

    def load(self, indices: np.ndarray, rng: np.random.Generator) -> list[Example]:
        return [self.example(int(index), rng) for index in indices]

    def document(self, span: np.void) -> int:
        return int(self.store.target.sentence(int(span["first"]))[0])

    def sentences(self, span: np.void) -> list[np.ndarray]:
        """The ids of each sentence of a span, without skipped tokens and empty sentences."""
        first, skip = int(span["first"]), int(span["skip"])
        whole = [self.store.source.sentence(first + number) for number in range(int(span["sentences"]))]
        whole[0] = whole[0][skip : skip + self.max_tokens]
        return [ids.astype(np.int64) for ids in whole if len(ids)]

    def example(self, index: int, rng: np.random.Generator) -> Example:
        """[CLS] A [SEP] B [SEP], or [CLS] A [SEP] where the span is one sentence."""
        span = self.spans[index]
        sentences = self.sentences(span)
        begin, end = [self.symbols.begin], [self.symbols.end]
        if not self.next_sentence or len(sentences) < 2 or not self.several_documents:
            ids = np.concatenate([begin, *sentences, end])
            return self.masked_example(index, ids, len(ids), IGNORE_INDEX, rng)
        split = int(rng.integers(1, len(sentences)))
        first = np.concatenate(sentences[:split])
        follows = rng.random() < 0.5
        max_tokens = self.max_tokens - len(first)
        second = np.concatenate(sentences[split:]) if follows else self.foreign_sentences(span, max_tokens, rng)
        ids = np.concatenate([begin, first, end, second, end])
        return self.masked_example(index, ids, len(first) + 2, FOLLOWS if follows else FOREIGN, rng)

    def foreign_sentences(self, span: np.void, max_tokens: int, rng: np.random.Generator) -> np.ndarray:
        """Sentences of another document, as many as fit.

        They are not the first of their document and end with a sentence, as second parts that follow do: only
        their content distinguishes them, neither their kind nor their length.
        """
        own = self.document(span)
        while True:
            other_span = self.spans[int(rng.choice(self.pairable))]
            if self.document(other_span) != own:
                begin = int(other_span["first"]) + int(rng.integers(1, other_span["sentences"]))
                if len(second := self.fitting(begin, max_tokens)):
                    return second

    def fitting(self, begin: int, max_tokens: int) -> np.ndarray:
        """The sentences of one document from `begin` on, as many as fit; the first may be truncated."""
        document, sentences, used = self.store.target.sentence(begin)[0], [], 0
        for number in range(begin, len(self.store)):
            ids = self.store.source.sentence(number)
            if self.store.target.sentence(number)[0] != document or (used and used + len(ids) > max_tokens):
                break
            sentences.append(ids[:max_tokens])
            used += len(ids)
        return np.concatenate(sentences).astype(np.int64)

    def masked_example(
        self, index: int, ids: np.ndarray, second: int, follows: int, rng: np.random.Generator
    ) -> Example:
        maskable = (ids != self.symbols.begin) & (ids != self.symbols.end)
        masked_ids, labels = self.masking(ids, maskable, self.symbols, rng)
        return Example(index, masked_ids, second, (follows,), labels)


def spans(lengths: np.ndarray, documents: np.ndarray, max_tokens: int) -> Iterator[tuple[int, int, int]]:
    """Spans of neighbouring sentences of one document with at most `max_tokens` tokens; longer ones are split.

    Yields:
        The fields of SPAN: first sentence, skipped tokens of it, number of sentences.
    """
    first = skip = used = 0
    last, own = -1, None  # the last sentence of the current span, and its document
    for number, (length, document) in enumerate(zip(lengths.tolist(), documents.tolist(), strict=True)):
        for begin in range(0, length, max_tokens):
            size = min(max_tokens, length - begin)
            if document != own or used + size > max_tokens:
                if last >= 0:
                    yield first, skip, last + 1 - first
                first, skip, used, own = number, begin, 0, document
            used += size
            last = number
    if last >= 0:
        yield first, skip, last + 1 - first
