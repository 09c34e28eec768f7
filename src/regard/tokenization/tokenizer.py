"""The interface of all tokenizers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.errors import RegardError

SPECIAL_TOKENS = ("<s>", "</s>", "<blank>", "<unk>")


class Tokenizer(ABC):
    """Text to token ids and back; text never encodes to a special token other than the unknown one.

    The special tokens are ids 0 to 3, except in the vocabularies of BERT and GPT.
    """

    begin: int = 0
    end: int = 1
    padding: int = 2
    unknown: int = 3

    @property
    @abstractmethod
    def kind(self) -> str:
        """One of words, spacy, space, bpe, wordpiece, unigram, bert, gpt, characters, bytes."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Vocabulary size, special tokens included."""

    @abstractmethod
    def normalize(self, text: str) -> str:
        """The normalised text: the result of decoding its ids if no token is unknown."""

    def encode(self, text: str) -> list[int]:
        """Token ids of one text, without special tokens."""
        return self.encode_batch([text])[0]

    @abstractmethod
    def encode_batch(
        self, texts: Sequence[str], *, dropout: float = 0.0, seed: int = 0, start: int = 0
    ) -> list[list[int]]:
        """Token ids of several texts.

        Args:
            texts: The texts.
            dropout: Probability of skipping a merge: BPE-dropout (Provilkov et al. 2020).
            seed: Random seed of the dropout.
            start: Number of the first text in its corpus. Text i is encoded at random from (seed, start + i),
                so that a corpus read in parts gives the same pieces as one read as a whole.
        """

    @abstractmethod
    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Start and end character in the text of each token of `encode(text)`."""

    @abstractmethod
    def tokens(self, ids: Iterable[int]) -> list[str]:
        """One readable piece per id: `▁` marks a blank before a piece, `##` a WordPiece continuation."""

    @abstractmethod
    def word_groups(self, ids: Sequence[int]) -> list[list[int]]:
        """Positions in `ids` grouped into words, in order; every position is in exactly one group."""

    def decode(self, ids: Iterable[int]) -> str:
        """Natural text of the ids; special tokens, also the unknown one, are omitted."""
        return self.decode_batch([list(ids)])[0]

    @abstractmethod
    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Natural text of several sequences of ids."""

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write one JSON file for `load`; equal tokenizers write byte-identical files."""

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<{self.kind} tokenizer of {self.size} ids>"


def refuse_dropout(kind: str, dropout: float) -> None:
    """Refuse BPE-dropout with a tokenizer that has no BPE merges.

    Raises:
        RegardError: `dropout` is not 0.
    """
    if dropout:
        raise RegardError(
            f"dropout={dropout:g} needs a bpe tokenizer; this one is of kind {kind}, use dropout=0"
        )


def refuse_surrogates(text: str) -> None:
    """Refuse text with lone surrogates, which cannot be encoded as UTF-8.

    Raises:
        RegardError: The text has one.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RegardError(f"the text {text[:40]!a} is not valid Unicode; was its file read as UTF-8?") from None
