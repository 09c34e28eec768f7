"""Plain text as documents of sentences, read anew whenever it is asked for: no document stays in memory."""

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from regard.data.lines import CorpusError, numbered_lines

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“(\[]?\s?[^\W\d_a-z])")


def read_sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The sentences of a file, plain or .gz, with their document's number; blank lines part documents.

    A line may be a sentence or a paragraph: it is split where a sentence ends and a capital follows.
    """
    document, within = -1, False
    for _, line in numbered_lines(path):
        if not line.strip():
            within = False
            continue
        document += not within
        within = True
        for part in SENTENCE_END.split(line.strip()):
            yield document, " ".join(part.split())
    if document < 0:
        raise CorpusError(f"{path} holds no text")


class PlainText:
    """The documents of a file, or some of them: those whose first sentence `belongs`."""

    def __init__(self, path: Path, belongs: Callable[[str], bool] = lambda first: True) -> None:
        self.path, self.belongs = path, belongs
        self.documents = self.sentences = 0
        digest, last = hashlib.sha256(), -1
        for number, sentence in self:
            self.documents += number != last
            self.sentences += 1
            digest.update(f"{number}\n{sentence}\n".encode())
            last = number
        self.fingerprint = digest.hexdigest()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Every sentence with the number of its document."""
        last, belongs = -1, True
        for number, sentence in read_sentences(self.path):
            if number != last:
                last, belongs = number, self.belongs(sentence)
            if belongs:
                yield number, sentence

    def pairs(self) -> Iterator[tuple[str, str]]:
        """As a token store takes them: a sentence, and its document's number."""
        return ((sentence, str(number)) for number, sentence in self)
