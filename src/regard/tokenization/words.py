"""Word-level tokenizers: words split by rule, by spaCy's rules, or at blanks."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from regard import storage
from regard.errors import RegardError
from regard.tokenization.tokenizer import SPECIAL_TOKENS, Tokenizer, refuse_dropout
from regard.tokenization.word_rules import detokenize, split_words

WORD_KINDS = ("words", "spacy", "space")
FORMAT = "regard.words"


@dataclass(frozen=True)
class WordOptions:
    """Normalisation and splitting of text into words."""

    kind: str
    language: str | None = None
    lowercase: bool = False
    normalization: str = "none"

    def normalize(self, text: str) -> str:
        """Unicode normalisation, lowercasing, and single blanks; for spaCy, inner blanks are kept."""
        text = self.normalize_characters(text)
        return text.strip() if self.kind == "spacy" else " ".join(text.split())

    def normalize_characters(self, text: str) -> str:
        """Unicode normalisation and lowercasing; blanks are kept."""
        if self.normalization != "none":
            form: Literal["NFC", "NFKC"] = "NFC" if self.normalization == "nfc" else "NFKC"
            text = unicodedata.normalize(form, text)
        return text.lower() if self.lowercase else text

    def splitter(self) -> Callable[[str], list[str]]:
        """The function that splits normalized text into words."""
        if self.kind == "spacy":
            return spacy_splitter(self.language)
        return split_words if self.kind == "words" else str.split

    def detokenize(self, words: Iterable[str]) -> str:
        """Words to natural text; the kind `space` joins them with blanks."""
        if self.kind == "space":
            return " ".join(words)
        return detokenize(words, join_hyphens=self.kind == "spacy")


class WordTokenizer(Tokenizer):
    """A vocabulary of whole words; other words, and words spelled like a special token, are <unk>."""

    def __init__(self, options: WordOptions, words: Sequence[str]) -> None:
        self.options = options
        self.vocabulary = (*SPECIAL_TOKENS, *words)
        self._ids = {word: number for number, word in enumerate(self.vocabulary) if word not in SPECIAL_TOKENS}

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

    def offsets(self, text: str) -> list[tuple[int, int]]:
        normalized, origins = normalized_with_origins(text, self.options.normalize_characters)
        spans, end = [], 0
        for word in self.options.splitter()(self.normalize(text)):
            start = normalized.index(word, end)
            end = start + len(word)
            spans.append((origins[start][0], origins[end - 1][1]))
        return spans

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.vocabulary[token_id] for token_id in ids]

    def word_groups(self, ids: Sequence[int]) -> list[list[int]]:
        return [[position] for position in range(len(ids))]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        first = len(SPECIAL_TOKENS)
        return [
            self.options.detokenize(self.vocabulary[token_id] for token_id in ids if token_id >= first)
            for ids in batch
        ]

    def save(self, path: str | Path) -> None:
        content = {
            "format": FORMAT,
            "version": 1,
            "kind": self.options.kind,
            "language": self.options.language,
            "lower": self.options.lowercase,
            "normal": self.options.normalization,
            "words": self.vocabulary[len(SPECIAL_TOKENS) :],
        }
        storage.write_text(Path(path), json.dumps(content, ensure_ascii=False, indent=0) + "\n")


def normalized_with_origins(text: str, normalize: Callable[[str], str]) -> tuple[str, list[tuple[int, int]]]:
    """A normalised text, and for each of its characters the span of the text that it comes from."""
    normalized = normalize(text)
    if normalized == text:
        return text, [(index, index + 1) for index in range(len(text))]
    for pieces in (_clusters(text), re.findall(r"\s+|\S+", text)):
        origins, start = [], 0
        for piece in pieces:
            origins += [(start, start + len(piece))] * len(normalize(piece))
            start += len(piece)
        if len(origins) == len(normalized):
            return normalized, origins
    return normalized, [(0, len(text))] * len(normalized)


def _clusters(text: str) -> list[str]:
    """Characters with the combining marks after them, which normalisation may join."""
    clusters: list[str] = []
    for character in text:
        if clusters and unicodedata.combining(character):
            clusters[-1] += character
        else:
            clusters.append(character)
    return clusters


def train_words(
    options: WordOptions, texts: Iterable[str], *, size: int | None, min_count: int
) -> WordTokenizer:
    """Vocabulary of the words that occur at least `min_count` times, by frequency, then alphabetically.

    Args:
        options: Normalisation and splitting.
        texts: The training texts.
        size: Maximum number of ids including the special tokens; None: no limit.
        min_count: Minimum frequency of a word.
    """
    split_text, counts = options.splitter(), Counter[str]()
    for text in texts:
        counts.update(split_text(options.normalize(text)))
    if not counts:
        raise RegardError("the texts have no word to train a tokenizer on")
    frequent = (word for word, count in counts.items() if count >= min_count and word not in SPECIAL_TOKENS)
    ranked = sorted(frequent, key=lambda word: (-counts[word], word))
    return WordTokenizer(options, ranked if size is None else ranked[: max(0, size - len(SPECIAL_TOKENS))])


def words_from_json(content: dict[str, Any]) -> WordTokenizer:
    """A tokenizer from its JSON object.

    Raises:
        ValueError: The object does not describe a tokenizer; the message says why.
    """
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
        raise ValueError("its lower, normal or language has a value that is not allowed")
    words = content.get("words")
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise ValueError("its words are not a list of strings")
    if len({*SPECIAL_TOKENS, *words}) != len(SPECIAL_TOKENS) + len(words):
        raise ValueError("it has a word twice")
    return WordTokenizer(WordOptions(kind, language, lower, normal), words)


@lru_cache(maxsize=8)
def spacy_splitter(language: str | None) -> Callable[[str], list[str]]:
    """A function that splits text by the rules of a spaCy language; the second of two blanks is a word, too."""
    if not language:
        raise RegardError("a tokenizer of kind spacy needs a language, such as language='de' or language='en'")
    try:
        spacy = import_module("spacy")  # by name: mypy runs where the extra is not installed
    except ImportError:
        raise RegardError(
            "a tokenizer of kind spacy needs spaCy, which is not installed: pip install 'regard[spacy]'"
        ) from None
    try:
        tokenizer = spacy.blank(language).tokenizer
    except (ImportError, OSError, ValueError) as problem:
        raise RegardError(
            f"spaCy has no tokenizer for language {language!r}: {str(problem).splitlines()[0]}"
        ) from None
    return lambda text: [token.text for token in tokenizer(text)]
