"""BPE, WordPiece and Unigram: the tokenizers library behind regard's interface."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import tokenizers

from regard import storage
from regard.errors import RegardError
from regard.tokenization.merges import MergeTable
from regard.tokenization.tokenizer import SPECIALS, Tokenizer, refuse_dropout, refuse_surrogates

SUBWORD_KINDS = {"bpe": "BPE", "wordpiece": "WordPiece", "unigram": "Unigram"}
BLANK = "▁"
CONTINUES = "##"


class SubwordTokenizer(Tokenizer):
    """Pieces of words; `▁` in a piece is the blank before it, so that decoding is exact."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self.library = library
        library.encode_special_tokens = True  # "<s>" typed by a user is three characters, not id 0
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
            return self._sample(texts, dropout, seed, start)
        return [encoding.ids for encoding in self._encodings(texts)]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[one] for one in ids]

    def words(self, ids: Sequence[int]) -> list[list[int]]:
        """A word is what stands between blanks, less the punctuation at its edges."""
        groups: list[list[int]] = []
        for place, one in enumerate(ids):
            alone = one < len(SPECIALS) or (place > 0 and ids[place - 1] < len(SPECIALS))
            if alone or not groups or self._pieces[one].startswith(BLANK):
                groups.append([place])
            else:
                groups[-1].append(place)
        return [part for group in groups for part in self._without_punctuation(group, ids)]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        kept = [[one for one in ids if one >= len(SPECIALS)] for ids in batch]
        return self.library.decode_batch(kept, skip_special_tokens=False)

    def save(self, path: str | Path) -> None:
        storage.write_text(Path(path), self.library.to_str(pretty=True) + "\n")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies for worker processes pass through the constructor: the library forgets its settings."""
        return _from_text, (self.library.to_str(),)

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
        except TypeError:  # what the library says to half of a surrogate pair, from a file that was not UTF-8
            for text in texts:
                refuse_surrogates(text)
            raise

    def _sample(self, texts: Sequence[str], dropout: float, seed: int, start: int) -> list[list[int]]:
        if self.kind != "bpe":
            refuse_dropout(self.kind, dropout)
        if not 0 <= dropout <= 1:
            raise RegardError(f"dropout={dropout:g} is not a probability; allowed is 0 to 1")
        encodings = self._encodings(texts, with_words=True)
        return [
            self._merges.resample(encoding.ids, encoding.word_ids, dropout, Random(f"{seed} {start + place}"))
            for place, encoding in enumerate(encodings)
        ]

    def _without_punctuation(self, group: list[int], ids: Sequence[int]) -> list[list[int]]:
        """A word's pieces in one group, each piece of punctuation before and after it in its own."""
        spoken = [place for place in group if any(map(str.isalnum, self._pieces[ids[place]]))]
        if not spoken or ids[group[0]] < len(SPECIALS):
            return [group]
        first, last = group.index(spoken[0]), group.index(spoken[-1]) + 1
        parts = [*([one] for one in group[:first]), group[first:last], *([one] for one in group[last:])]
        if len(parts) > 1 and self._pieces[ids[group[0]]] == BLANK:  # a blank goes with what it stands before
            parts[:2] = [parts[0] + parts[1]]
        return parts


def _from_text(text: str) -> SubwordTokenizer:
    return SubwordTokenizer(tokenizers.Tokenizer.from_str(text))
