"""Subword tokenizers (BPE, WordPiece, Unigram) of the tokenizers library."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import tokenizers

from regard import storage
from regard.errors import RegardError
from regard.tokenization.bpe_dropout import MergeTable
from regard.tokenization.tokenizer import SPECIAL_TOKENS, Tokenizer, refuse_dropout, refuse_surrogates

SUBWORD_KINDS = {"bpe": "BPE", "wordpiece": "WordPiece", "unigram": "Unigram"}
BLANK = "▁"
CONTINUATION = "##"


class SubwordTokenizer(Tokenizer):
    """A subword tokenizer; `▁` in a piece is a blank, so that decoding is exact."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self.library = library
        library.encode_special_tokens = True  # "<s>" in a text is three characters, not id 0
        library.no_truncation()
        library.no_padding()

    @cached_property
    def kind(self) -> str:
        return type(self.library.model).__name__.lower()

    @cached_property
    def size(self) -> int:
        return self.library.get_vocab_size()

    def normalize(self, text: str) -> str:
        normalizer = self.library.normalizer
        return text if normalizer is None else normalizer.normalize_str(text)

    def encode_batch(
        self, texts: Sequence[str], *, dropout: float = 0.0, seed: int = 0, start: int = 0
    ) -> list[list[int]]:
        if dropout:
            return self._encode_with_dropout(texts, dropout, seed, start)
        return [encoding.ids for encoding in self._encodings(texts)]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        [encoding] = self._encodings([text], with_words=True)
        return list(encoding.offsets)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[token_id] for token_id in ids]

    def word_groups(self, ids: Sequence[int]) -> list[list[int]]:
        """A word is the text between blanks without the punctuation at its edges."""
        first = len(SPECIAL_TOKENS)
        groups: list[list[int]] = []
        for position, token_id in enumerate(ids):
            separate = token_id < first or (position > 0 and ids[position - 1] < first)
            if separate or not groups or self._pieces[token_id].startswith(BLANK):
                groups.append([position])
            else:
                groups[-1].append(position)
        return [part for group in groups for part in self._split_punctuation(group, ids)]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        texts = [[token_id for token_id in ids if token_id >= len(SPECIAL_TOKENS)] for ids in batch]
        return self.library.decode_batch(texts, skip_special_tokens=False)

    def save(self, path: str | Path) -> None:
        storage.write_text(Path(path), self.library.to_str(pretty=True) + "\n")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle through the constructor, because the library does not store the settings made there."""
        return _unpickle, (type(self), self.library.to_str())

    @cached_property
    def _pieces(self) -> list[str]:
        return sorted(vocabulary := self.library.get_vocab(), key=vocabulary.__getitem__)

    @cached_property
    def _merges(self) -> MergeTable:
        return MergeTable(self.library)

    def _encodings(self, texts: Sequence[str], *, with_words: bool = False) -> list[Any]:
        encode = self.library.encode_batch if with_words else self.library.encode_batch_fast
        try:
            return encode(list(texts), add_special_tokens=False)
        except TypeError:  # raised for a lone surrogate, from a file that was not UTF-8
            for text in texts:
                refuse_surrogates(text)
            raise

    def _encode_with_dropout(
        self, texts: Sequence[str], dropout: float, seed: int, start: int
    ) -> list[list[int]]:
        if self.kind != "bpe":
            refuse_dropout(self.kind, dropout)
        if not 0 <= dropout <= 1:
            raise RegardError(f"dropout={dropout:g} is not a probability; allowed is 0 to 1")
        encodings = self._encodings(texts, with_words=True)
        return [
            self._merges.resample(encoding.ids, encoding.word_ids, dropout, Random(f"{seed} {start + index}"))
            for index, encoding in enumerate(encodings)
        ]

    def _split_punctuation(self, group: list[int], ids: Sequence[int]) -> list[list[int]]:
        """One group for the pieces of the word, and one for each piece of punctuation before and after it."""
        word = [position for position in group if any(map(str.isalnum, self._pieces[ids[position]]))]
        if not word or ids[group[0]] < len(SPECIAL_TOKENS):
            return [group]
        start, end = group.index(word[0]), group.index(word[-1]) + 1
        before, after = group[:start], group[end:]
        parts = [*([position] for position in before), group[start:end], *([position] for position in after)]
        if len(parts) > 1 and self._pieces[ids[group[0]]] == BLANK:  # a blank belongs to the piece after it
            parts[:2] = [parts[0] + parts[1]]
        return parts


def _unpickle(cls: type[SubwordTokenizer], text: str) -> SubwordTokenizer:
    return cls(tokenizers.Tokenizer.from_str(text))
