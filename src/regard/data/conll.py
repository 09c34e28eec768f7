"""Words with tags in columns, as CoNLL's shared tasks have them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.lines import CorpusError, numbered_lines

TAG = re.compile(r"O|[BI]-\S+")
BETWEEN_DOCUMENTS = "-DOCSTART-"


@dataclass(frozen=True)
class Tagged:
    """A sentence: words, a tag for each, and the line of the first."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int


def read_conll(path: Path) -> Iterator[Tagged]:
    """Sentences of a file, plain or .gz: a word a line with its tag in the last column, blank lines between.

    Columns are apart by tabs, or by blanks where there is no tab. Tags are O, B-... and I-...; a line with
    more or fewer columns than the first is refused.
    """
    words: list[str] = []
    tags: list[str] = []
    columns = first = 0
    empty = True
    for number, line in numbered_lines(path):
        if not line.strip() or line.startswith(BETWEEN_DOCUMENTS):
            if words:
                yield Tagged(tuple(words), tuple(tags), first)
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
        yield Tagged(tuple(words), tuple(tags), first)
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
        raise CorpusError(f"{where}: {cells[-1]!r} is no tag; tags are O, B-name and I-name")


def tags_of(sentences: Sequence[Tagged], path: Path) -> list[str]:
    """The tags to choose from: O first, then B- and I- of every name that occurs."""
    names = sorted({tag[2:] for each in sentences for tag in each.tags if tag != "O"})
    if not names:
        raise CorpusError(f"{path}: every tag is O; finding names needs some")
    return ["O", *(f"{begin}-{name}" for name in names for begin in "BI")]


def check_tags(sentences: Sequence[Tagged], tags: Sequence[str], path: Path) -> None:
    """Refuse a tag that the model does not know."""
    known = set(tags)
    for each in sentences:
        for place, tag in enumerate(each.tags):
            if tag not in known:
                raise CorpusError(
                    f"{path}, line {each.line + place}: the tag {tag!r} was not among those of the training"
                    f" sentences, which are {', '.join(tags)}"
                )
