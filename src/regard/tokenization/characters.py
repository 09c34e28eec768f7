"""Character- and byte-level tokenizers."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from regard import storage
from regard.errors import RegardError
from regard.tokenization.tokenizer import SPECIAL_TOKENS, Tokenizer, refuse_dropout, refuse_surrogates

CHARACTER_KINDS = ("characters", "bytes")
FORMAT = "regard.letters"
VISIBLE_BLANKS = {" ": "▁", "\n": "⏎", "\t": "⇥", "\r": "␍"}
"""How whitespace is displayed in tokens."""


class CharacterTokenizer(Tokenizer):
    """Kind `characters`: an id per character of the alphabet, others <unk>. Kind `bytes`: an id per byte."""

    def __init__(self, kind: str, alphabet: str) -> None:
        self._kind, self.alphabet = kind, alphabet
        self._ids = {character: number for number, character in enumerate(alphabet, start=len(SPECIAL_TOKENS))}

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def size(self) -> int:
        return len(SPECIAL_TOKENS) + (256 if self.kind == "bytes" else len(self.alphabet))

    def normalize(self, text: str) -> str:
        return text

    def encode_batch(
        self, texts: Sequence[str], *, dropout: float = 0.0, seed: int = 0, start: int = 0
    ) -> list[list[int]]:
        refuse_dropout(self.kind, dropout)
        if self.kind == "bytes":
            for text in texts:
                refuse_surrogates(text)
            return [[byte + len(SPECIAL_TOKENS) for byte in text.encode()] for text in texts]
        return [[self._ids.get(character, self.unknown) for character in text] for text in texts]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        sizes = [len(character.encode()) if self.kind == "bytes" else 1 for character in text]
        return [(index, index + 1) for index, size in enumerate(sizes) for _ in range(size)]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self._token(token_id) for token_id in ids]

    def word_groups(self, ids: Sequence[int]) -> list[list[int]]:
        """A word is a run of letters and digits; a blank belongs to the word after it."""
        groups: list[list[int]] = []
        in_word = False
        for position, token in enumerate(self.tokens(ids)):
            word_character = ids[position] >= len(SPECIAL_TOKENS) and (
                token.isalnum() or token.startswith("<0x")
            )
            if groups and word_character and (in_word or self._is_blank(ids[position - 1])):
                groups[-1].append(position)
            else:
                groups.append([position])
            in_word = word_character
        return groups

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        first = len(SPECIAL_TOKENS)
        indices = [[token_id - first for token_id in ids if token_id >= first] for ids in batch]
        if self.kind == "bytes":
            return [bytes(values).decode("utf-8", "replace") for values in indices]
        return ["".join(self.alphabet[index] for index in text) for text in indices]

    def save(self, path: str | Path) -> None:
        content = {"format": FORMAT, "version": 1, "kind": self.kind, "letters": self.alphabet}
        storage.write_text(Path(path), json.dumps(content, ensure_ascii=True, indent=0) + "\n")

    def _token(self, token_id: int) -> str:
        index = token_id - len(SPECIAL_TOKENS)
        if index < 0:
            return SPECIAL_TOKENS[token_id]
        character = chr(index) if self.kind == "bytes" else self.alphabet[index]
        if self.kind == "bytes" and character >= "\x7f":
            return f"<0x{ord(character):02X}>"
        printable = character if character.isprintable() else f"<0x{ord(character):02X}>"
        return VISIBLE_BLANKS.get(character, printable)

    def _is_blank(self, token_id: int) -> bool:
        return self.tokens([token_id]) == [VISIBLE_BLANKS[" "]]


def train_characters(kind: str, texts: Iterable[str]) -> CharacterTokenizer:
    """A tokenizer whose alphabet is the sorted characters of the texts; bytes need no training."""
    counts = Counter[str]()
    for text in texts:
        counts.update(text)
    if not counts:
        raise RegardError("the texts are empty: there is no text to train a tokenizer on")
    return CharacterTokenizer(kind, "".join(sorted(counts)) if kind == "characters" else "")


def characters_from_json(content: dict[str, Any]) -> CharacterTokenizer:
    """A tokenizer from its JSON object.

    Raises:
        ValueError: The object does not describe a tokenizer; the message says why.
    """
    if content.get("version") != 1:
        raise ValueError(f"its version is {content.get('version')!r}, this regard reads version 1")
    kind, alphabet = content.get("kind"), content.get("letters")
    if kind not in CHARACTER_KINDS:
        raise ValueError(f"its kind is {kind!r}, allowed are {', '.join(CHARACTER_KINDS)}")
    if not isinstance(alphabet, str) or len(set(alphabet)) != len(alphabet):
        raise ValueError("its letters are not a string of distinct characters")
    if bool(alphabet) != (kind == "characters"):
        raise ValueError("it needs letters if its kind is characters, and none if it is bytes")
    return CharacterTokenizer(str(kind), alphabet)
