"""Texts and pairs as a GPT is fine-tuned on them: between [START], [DELIM] and [EXTRACT]."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.tokenization.tokenizer import Tokenizer

MARKS = ("[START]", "[DELIM]", "[EXTRACT]")
"""Symbols that were no part of the text a GPT learned from; their ids follow those of its vocabulary."""


class MarkedTokenizer(Tokenizer):
    """A tokenizer with three symbols more, which nobody can type (Radford et al. 2018, section 3.3)."""

    def __init__(self, inner: Tokenizer) -> None:
        self.inner = inner
        self.begin, self.end, self.unknown = inner.begin, inner.end, inner.unknown
        self.padding = -1  # a vocabulary that is used as it was found has no id to spare

    @property
    def kind(self) -> str:
        return self.inner.kind

    @property
    def size(self) -> int:
        return self.inner.size + len(MARKS)

    def normalize(self, text: str) -> str:
        return self.inner.normalize(text)

    def encode_batch(
        self, texts: Sequence[str], *, dropout: float = 0.0, seed: int = 0, start: int = 0
    ) -> list[list[int]]:
        return self.inner.encode_batch(texts, dropout=dropout, seed=seed, start=start)

    def joined(self, first: Sequence[int], second: Sequence[int] | None = None) -> list[int]:
        """[START] A [EXTRACT], or [START] A [DELIM] B [EXTRACT]."""
        start, delimiter, extract = range(self.inner.size, self.size)
        rest = [] if second is None else [delimiter, *second]
        return [start, *first, *rest, extract]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        first = self.inner.size
        return [MARKS[one - first] if one >= first else self.inner.tokens([one])[0] for one in ids]

    def words(self, ids: Sequence[int]) -> list[list[int]]:
        """The inner tokenizer's words, a symbol by itself."""
        groups: list[list[int]] = []
        begin = 0
        for place, one in enumerate([*ids, self.inner.size]):
            if one >= self.inner.size:
                groups += [[begin + each for each in group] for group in self.inner.words(ids[begin:place])]
                groups += [[place]] if place < len(ids) else []
                begin = place + 1
        return groups

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        return self.inner.decode_batch([[one for one in ids if one < self.inner.size] for ids in batch])

    def save(self, path: str | Path) -> None:
        self.inner.save(path)
