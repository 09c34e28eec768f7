"""Tokenizers whose ids are whole words: by rule, by spaCy, or split at blanks."""

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard import storage
from regard.errors import RegardError
from regard.tokenization.joining import join
from regard.tokenization.rules import split
from regard.tokenization.spacy_words import spacy_split
from regard.tokenization.tokenizer import SPECIALS, Tokenizer, refuse_dropout

WORD_KINDS = ("words", "spacy", "space")
FORMAT = "regard.words"


@dataclass(frozen=True)
class WordOptions:
    """How a text is cut into words before any of them has an id."""

    kind: str
    language: str | None = None
    lower: bool = False
    normal: str = "none"

    def normalize(self, text: str) -> str:
        """Composed and lowered as asked, without blanks at the ends; spaCy alone sees the inner blanks."""
        if self.normal != "none":
            form: Literal["NFC", "NFKC"] = "NFC" if self.normal == "nfc" else "NFKC"
            text = unicodedata.normalize(form, text)
        if self.lower:
            text = text.lower()
        return text.strip() if self.kind == "spacy" else " ".join(text.split())

    def splitter(self) -> Callable[[str], list[str]]:
        """Text, normalized, to words."""
        if self.kind == "spacy":
            return spacy_split(self.language)
        return split if self.kind == "words" else str.split

    def join(self, words: Iterable[str]) -> str:
        """Words to natural text; `space` has nothing to undo."""
        return " ".join(words) if self.kind == "space" else join(words, hyphens=self.kind == "spacy")


class WordTokenizer(Tokenizer):
    """A vocabulary of whole words; any other word is <unk>, and so is a word spelled like a special symbol."""

    def __init__(self, options: WordOptions, words: Sequence[str]) -> None:
        self.options = options
        self.vocabulary = (*SPECIALS, *words)
        self._ids = {word: place for place, word in enumerate(self.vocabulary) if word not in SPECIALS}

    @property
    def kind(self) -> str:
        return self.options.kind

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def normalize(self, text: str) -> str:
        return self.options.normalize(text)

    def encode_batch(
        self, texts: Sequence[str], *, dropout: float = 0.0, seed: int = 0, start: int = 0
    ) -> list[list[int]]:
        refuse_dropout(self.kind, dropout)
        split_text, normalize, ids = self.options.splitter(), self.options.normalize, self._ids
        return [[ids.get(word, self.unknown) for word in split_text(normalize(text))] for text in texts]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.vocabulary[one] for one in ids]

    def words(self, ids: Sequence[int]) -> list[list[int]]:
        return [[place] for place in range(len(ids))]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        return [self.options.join(self.vocabulary[one] for one in ids if one >= len(SPECIALS)) for ids in batch]

    def save(self, path: str | Path) -> None:
        content = {
            "format": FORMAT,
            "version": 1,
            **vars(self.options),
            "words": self.vocabulary[len(SPECIALS) :],
        }
        storage.write_text(Path(path), json.dumps(content, ensure_ascii=False, indent=0) + "\n")


def train_words(
    options: WordOptions, texts: Iterable[str], *, size: int | None, min_count: int
) -> WordTokenizer:
    """Words seen at least `min_count` times, most frequent first, then alphabetical; `size` cuts the tail."""
    split_text, counts = options.splitter(), Counter[str]()
    for text in texts:
        counts.update(split_text(options.normalize(text)))
    if not counts:
        raise RegardError("there is no word in the texts that a tokenizer is to be trained on")
    frequent = (word for word, count in counts.items() if count >= min_count and word not in SPECIALS)
    ranked = sorted(frequent, key=lambda word: (-counts[word], word))
    return WordTokenizer(options, ranked if size is None else ranked[: max(0, size - len(SPECIALS))])


def words_from_json(content: dict[str, Any]) -> WordTokenizer:
    """The tokenizer a JSON object describes; ValueError says what is wrong with it."""
    if content.get("version") != 1:
        raise ValueError(f"its version is {content.get('version')!r}, this regard reads version 1")
    kind, language, lower, normal = (content.get(key) for key in ("kind", "language", "lower", "normal"))
    if kind not in WORD_KINDS:
        raise ValueError(f"its kind is {kind!r}, allowed are {', '.join(WORD_KINDS)}")
    if (
        not isinstance(lower, bool)
        or normal not in ("none", "nfc", "nfkc")
        or not isinstance(language, str | None)
    ):
        raise ValueError("its lower, normal or language is not what it may be")
    words = content.get("words")
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise ValueError("its words are not a list of strings")
    if len({*SPECIALS, *words}) != len(SPECIALS) + len(words):
        raise ValueError("a word stands in it twice")
    return WordTokenizer(WordOptions(kind, language, lower, normal), words)
