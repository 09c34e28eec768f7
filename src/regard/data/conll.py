"""Sentences of tagged words in the column format of the CoNLL shared tasks."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.text_files import CorpusError, numbered_lines

TAG = re.compile(r"O|[BI]-\S+")
DOCUMENT_START = "-DOCSTART-"


@dataclass(frozen=True)
class ConllSentence:
    """A sentence: its words, their tags, and the line of the first."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int


def read_conll(path: Path) -> Iterator[ConllSentence]:
    """Sentences of a file, plain or .gz: a word and its tag (the last column) per line, blank lines between.

    Columns are separated by tabs, or by blanks where there is no tab; tags are O, B-... and I-...

    Raises:
        CorpusError: The file cannot be read, a tag is invalid, or lines differ in their number of columns.
    """
    words: list[str] = []
    tags: list[str] = []
    columns = first = 0
    empty = True
    for number, line in numbered_lines(path):
        if not line.strip() or line.startswith(DOCUMENT_START):
            if words:
                yield ConllSentence(tuple(words), tuple(tags), first)
                words, tags = [], []
            continue
        cells = [cell.strip() for cell in line.rstrip("\r").split("\t")] if "\t" in line else line.split()
        columns = columns or len(cells)
        check_row(cells, columns, f"{path}, line {number}")
        first = first if words else number
        words.append(cells[0])
        tags.append(cells[-1])
        empty = False
    if words:
        yield ConllSentence(tuple(words), tuple(tags), first)
    if empty:
        raise CorpusError(f"{path} has no words; a line is a word, a tab and its tag")


def check_row(cells: Sequence[str], columns: int, where: str) -> None:
    if len(cells) < 2:
        raise CorpusError(f"{where}: {cells[0]!r} has no tag; a line is a word, a tab and its tag")
    if len(cells) != columns:
        raise CorpusError(f"{where}: {len(cells)} columns where the first word has {columns}")
    if not cells[0]:
        raise CorpusError(f"{where}: the word is empty")
    if not TAG.fullmatch(cells[-1]):
        raise CorpusError(f"{where}: {cells[-1]!r} is not a tag; tags are O, B-name and I-name")


def distinct_tags(sentences: Sequence[ConllSentence], path: Path) -> list[str]:
    """The tag set: O, then B- and I- of every entity type that occurs."""
    names = sorted({tag[2:] for sentence in sentences for tag in sentence.tags if tag != "O"})
    if not names:
        raise CorpusError(f"{path}: every tag is O; at least one name must be tagged")
    return ["O", *(f"{begin}-{name}" for name in names for begin in "BI")]


def check_tags(sentences: Sequence[ConllSentence], tags: Sequence[str], path: Path) -> None:
    """Raise CorpusError for a tag that the training sentences do not have."""
    known = set(tags)
    for sentence in sentences:
        for index, tag in enumerate(sentence.tags):
            if tag not in known:
                raise CorpusError(
                    f"{path}, line {sentence.line + index}: the tag {tag!r} was not among those of the training"
                    f" sentences, which are {', '.join(tags)}"
                )
