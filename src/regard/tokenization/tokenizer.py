"""What every room above may ask of a tokenizer, whatever its kind."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.errors import RegardError

SPECIALS = ("<s>", "</s>", "<blank>", "<unk>")


class Tokenizer(ABC):
    """Text to ids and back; typed text never becomes one of the special symbols but the unknown one.

    They are ids 0 to 3; BERT's and GPT's own vocabularies have theirs elsewhere.
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
        """Number of ids, the special symbols included."""

    @abstractmethod
    def normalize(self, text: str) -> str:
        """The text as the tokenizer reads it: what decoding gives back when nothing is unknown."""

    def encode(self, text: str) -> list[int]:
        """Ids of one text; no special symbol is added."""
        return self.encode_batch([text])[0]

    @abstractmethod
    def encode_batch(
        self, texts: Sequence[str], *, dropout: float = 0.0, seed: int = 0, start: int = 0
    ) -> list[list[int]]:
        """Ids of many texts at once.

        `dropout` > 0 is BPE-dropout (Provilkov et al. 2020): the pieces of text i are drawn anew from
        (seed, start + i), so a corpus read in parts gets the same pieces as one read whole.
        """

    @abstractmethod
    def tokens(self, ids: Iterable[int]) -> list[str]:
        """One readable piece an id: `▁` marks the blank before a piece, `##` a WordPiece continuation."""

    @abstractmethod
    def words(self, ids: Sequence[int]) -> list[list[int]]:
        """Positions in `ids` grouped into words, in order; every position is in exactly one group."""

    def decode(self, ids: Iterable[int]) -> str:
        """Natural text of the ids; special symbols, the unknown one among them, leave no trace."""
        return self.decode_batch([list(ids)])[0]

    @abstractmethod
    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Natural text of many sentences."""

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write one JSON file that `load` reads; the same tokenizer gives the same bytes."""

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<{self.kind} tokenizer of {self.size} ids>"


def refuse_dropout(kind: str, dropout: float) -> None:
    """Dropout draws merges; a kind without merges has nothing to draw."""
    if dropout:
        raise RegardError(
            f"dropout={dropout:g} needs a bpe tokenizer; this one is of kind {kind}, use dropout=0"
        )


def refuse_surrogates(text: str) -> None:
    """Half a character cannot be written to a file again."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RegardError(f"the text {text[:40]!a} is not valid Unicode; was its file read as UTF-8?") from None
