"""Tokenizers that lose nothing and learn little: a token is a character, or a byte."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from regard import storage
from regard.errors import RegardError
from regard.tokenization.tokenizer import SPECIALS, Tokenizer, refuse_dropout, refuse_surrogates

LETTER_KINDS = ("characters", "bytes")
FORMAT = "regard.letters"
SHOWN = {" ": "▁", "\n": "⏎", "\t": "⇥", "\r": "␍"}
"""How blanks are written where a reader looks at tokens."""


class LetterTokenizer(Tokenizer):
    """Characters, of which those not in `letters` are unknown; or bytes, of which all are known."""

    def __init__(self, kind: str, letters: str) -> None:
        self._kind, self.letters = kind, letters
        self._ids = {letter: place for place, letter in enumerate(letters, start=len(SPECIALS))}

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def size(self) -> int:
        return len(SPECIALS) + (256 if self.kind == "bytes" else len(self.letters))

    def normalize(self, text: str) -> str:
        return text

    def encode_batch(
        self, texts: Sequence[str], *, dropout: float = 0.0, seed: int = 0, start: int = 0
    ) -> list[list[int]]:
        refuse_dropout(self.kind, dropout)
        if self.kind == "bytes":
            for text in texts:
                refuse_surrogates(text)
            return [[byte + len(SPECIALS) for byte in text.encode()] for text in texts]
        return [[self._ids.get(letter, self.unknown) for letter in text] for text in texts]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self._shown(one) for one in ids]

    def words(self, ids: Sequence[int]) -> list[list[int]]:
        """A word is a run of letters and digits; a blank goes with what it stands before."""
        groups: list[list[int]] = []
        within = False
        for place, token in enumerate(self.tokens(ids)):
            spoken = ids[place] >= len(SPECIALS) and (token.isalnum() or token.startswith("<0x"))
            if groups and spoken and (within or self._is_blank(ids[place - 1])):
                groups[-1].append(place)
            else:
                groups.append([place])
            within = spoken
        return groups

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        kept = [[one - len(SPECIALS) for one in ids if one >= len(SPECIALS)] for ids in batch]
        if self.kind == "bytes":
            return [bytes(each).decode("utf-8", "replace") for each in kept]
        return ["".join(self.letters[one] for one in each) for each in kept]

    def save(self, path: str | Path) -> None:
        content = {"format": FORMAT, "version": 1, "kind": self.kind, "letters": self.letters}
        storage.write_text(Path(path), json.dumps(content, ensure_ascii=True, indent=0) + "\n")

    def _shown(self, one: int) -> str:
        if one < len(SPECIALS):
            return SPECIALS[one]
        letter = chr(one - len(SPECIALS)) if self.kind == "bytes" else self.letters[one - len(SPECIALS)]
        if self.kind == "bytes" and letter >= "\x7f":
            return f"<0x{ord(letter):02X}>"
        return SHOWN.get(letter, letter if letter.isprintable() else f"<0x{ord(letter):02X}>")

    def _is_blank(self, one: int) -> bool:
        return self.tokens([one]) == [SHOWN[" "]]


def train_letters(kind: str, texts: Iterable[str]) -> LetterTokenizer:
    """The characters that occur, in order; bytes need no training."""
    counts = Counter[str]()
    for text in texts:
        counts.update(text)
    if not counts:
        raise RegardError("there is no text that a tokenizer could be trained on")
    return LetterTokenizer(kind, "".join(sorted(counts)) if kind == "characters" else "")


def letters_from_json(content: dict[str, Any]) -> LetterTokenizer:
    """The tokenizer a JSON object describes; ValueError says what is wrong with it."""
    if content.get("version") != 1:
        raise ValueError(f"its version is {content.get('version')!r}, this regard reads version 1")
    kind, letters = content.get("kind"), content.get("letters")
    if kind not in LETTER_KINDS:
        raise ValueError(f"its kind is {kind!r}, allowed are {', '.join(LETTER_KINDS)}")
    if not isinstance(letters, str) or len(set(letters)) != len(letters):
        raise ValueError("its letters are no text in which each stands once")
    if bool(letters) != (kind == "characters"):
        raise ValueError("characters are told by its letters, and bytes need none")
    return LetterTokenizer(str(kind), letters)
