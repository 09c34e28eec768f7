"""Parallel and monolingual text from plain files and tables, read lazily."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from regard.data.tables import EXTENSIONS, Column, extension, read_columns
from regard.data.text_files import CorpusError, numbered_lines

__all__ = ["Column", "CorpusError", "Pair", "read_lines", "read_pairs"]

Pair = tuple[str, str]

_NOT_TEXT = {".json", ".zip", ".tar", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".parquet", ".xlsx"}


def read_pairs(
    source: Path | str,
    target: Path | str | None = None,
    *,
    source_column: Column | None = None,
    target_column: Column | None = None,
) -> Iterator[Pair]:
    """Sentence pairs from two line-aligned files or one table (.tsv, .csv, .jsonl), plain or .gz.

    A column is a name from the header (a key in JSON lines, ``translation.de`` for a nested one) or a number
    from 1 in a file without a header. Trailing blanks are removed; a line end inside a cell becomes a space.

    Raises:
        CorpusError: A file cannot be read, or two files differ in their number of lines.
    """
    if target is not None:
        return _aligned(Path(source), Path(target), source_column, target_column)
    if extension(Path(source)) not in EXTENSIONS:
        _refuse_other_formats(Path(source))
        raise CorpusError(
            f"{source} holds one side only; give the target file too, or one .tsv, .csv or .jsonl file"
        )
    return _table(Path(source), source_column, target_column)


def read_lines(path: Path | str, column: Column | None = None) -> Iterator[str]:
    """The lines of a plain file, or one column of a table."""
    path = Path(path)
    if extension(path) in EXTENSIONS:
        for (text,) in read_columns(path, [column]):
            yield _tidy(text)
        return
    _refuse_other_formats(path)
    if column is not None:
        raise CorpusError(
            f"{path} has no columns, so no {column}; only .tsv, .csv and .jsonl files have columns"
        )
    for _, text in numbered_lines(path):
        yield _tidy(text)


def _table(path: Path, source_column: Column | None, target_column: Column | None) -> Iterator[Pair]:
    for source, target in read_columns(path, [source_column, target_column]):
        yield _tidy(source), _tidy(target)


def _aligned(
    source: Path, target: Path, source_column: Column | None, target_column: Column | None
) -> Iterator[Pair]:
    source_lines, target_lines = read_lines(source, source_column), read_lines(target, target_column)
    for number, (source_line, target_line) in enumerate(zip_longest(source_lines, target_lines)):
        if source_line is None or target_line is None:
            longer = number + 1 + sum(1 for _ in (target_lines if source_line is None else source_lines))
            counts = (number, longer) if source_line is None else (longer, number)
            raise CorpusError(
                f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,};"
                " line-aligned files must have the same number"
            )
        yield source_line, target_line


def _tidy(text: str) -> str:
    if "\n" in text:  # from a quoted CSV cell or a JSON string; a sentence is one line everywhere else
        text = text.replace("\r\n", " ").replace("\n", " ")
    return text.rstrip(" \t\r")


def _refuse_other_formats(path: Path) -> None:
    if extension(path) in _NOT_TEXT:
        raise CorpusError(
            f"{path} is a {extension(path)} file; allowed are plain text, .tsv, .csv and .jsonl (JSON lines),"
            " each also as .gz"
        )
