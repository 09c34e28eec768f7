"""Words of a text that a vocabulary lacks: those that contain a token with the unknown id."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.tokenization.tokenizer import Tokenizer
from regard.tokenization.word_rules import split_words
from regard.tokenization.words import WORD_KINDS

MAX_LISTED = 8
"""Words that a message lists."""
_UNIT = {**dict.fromkeys(WORD_KINDS, "words"), "characters": "characters"}
# Han, kana and their extensions: written without blanks, so that each character counts as a word.
_NO_BLANKS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_PART = re.compile(f"[{_NO_BLANKS}]|[^{_NO_BLANKS}]+")


@dataclass(frozen=True)
class UnknownWord:
    """A word as it is spelled in the text, and its position there in characters; `end` is exclusive."""

    text: str
    start: int
    end: int


def unknown_tokens(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """Start and end character of each token of the text that is unknown; byte-level vocabularies have none."""
    return [
        span
        for token_id, span in zip(tokenizer.encode(text), tokenizer.offsets(text), strict=True)
        if token_id == tokenizer.unknown
    ]


def unknown_words(tokenizer: Tokenizer, text: str, ids: Sequence[int] | None = None) -> tuple[UnknownWord, ...]:
    """The words of a text that contain an unknown token, in order.

    A word vocabulary has words of its own; for subwords and characters, words are those of `split_words`.

    Args:
        tokenizer: The model's tokenizer.
        text: The text.
        ids: Its token ids, if they are at hand.
    """
    if tokenizer.unknown not in (tokenizer.encode(text) if ids is None else ids):
        return ()
    tokens = unknown_tokens(tokenizer, text)
    spans: list[tuple[int, int]] = []
    for start, end in word_spans(tokenizer, text):
        if not any(start < token_end and token_start < end for token_start, token_end in tokens):
            continue
        if spans and spans[-1][1] == start and not has_letter(text[spans[-1][0] : end]):
            spans[-1] = spans[-1][0], end  # an emoji of several characters
        else:
            spans.append((start, end))
    return tuple(UnknownWord(text[start:end], start, end) for start, end in spans)


def word_spans(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """Start and end character of each word and punctuation mark of a text, for its tokenizer."""
    if tokenizer.kind in WORD_KINDS:  # one character may be several words in its normal form, such as ½
        spans = [(start, end) for start, end in tokenizer.offsets(text) if text[start:end].strip()]
        return list(dict.fromkeys(spans))
    spans, end = [], 0
    for word in split_words(text):
        for part in _PART.findall(word):
            start = text.index(part, end)
            end = start + len(part)
            spans.append((start, end))
    return spans


def word_count(tokenizer: Tokenizer, text: str, unknown: Sequence[UnknownWord] = ()) -> int:
    """Number of words of a text, without punctuation unless it is unknown."""
    words = sum(has_letter(text[start:end]) for start, end in word_spans(tokenizer, text))
    return words + sum(not has_letter(word.text) for word in unknown)


def has_letter(text: str) -> bool:
    """Whether a text has a letter or a digit."""
    return any(map(str.isalnum, text))


def unknown_words_message(tokenizer: Tokenizer, text: str, unknown: Sequence[UnknownWord]) -> str:
    """One sentence on the unknown words of a text: how many of how many, and which."""
    distinct = list(dict.fromkeys(word.text for word in unknown))
    listed = ", ".join(distinct[:MAX_LISTED]) + (", ..." if len(distinct) > MAX_LISTED else "")
    total, verb = word_count(tokenizer, text, unknown), "is" if len(unknown) == 1 else "are"
    size = f"{tokenizer.size:,} {_UNIT.get(tokenizer.kind, 'subwords')}"
    return f"{len(unknown)} of {total} words {verb} not in the model's vocabulary ({size}): {listed}"
