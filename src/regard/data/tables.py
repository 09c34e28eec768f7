"""Columns of TSV, CSV and JSON lines files, by name or number; errors name file and line."""

import csv
import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.text_files import CorpusError, numbered_lines
from regard.errors import did_you_mean

Column = str | int  # a name from the header, or a number from 1 in a file without a header

EXTENSIONS = (".tsv", ".csv", ".jsonl")

SHOWN_NAMES, MAX_NAME_LENGTH = 10, 40
"""Column names in a message, and characters of each."""
MAX_COMPARED = 1000
"""Column names that a wrong one is compared with for a suggestion: comparing a million takes minutes."""


def extension(path: Path) -> str:
    """The extension that decides how a file is read: ``.tsv`` for ``train.tsv`` and for ``train.TSV.gz``."""
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return plain.suffix.lower()


def read_columns(path: Path, columns: Sequence[Column | None]) -> Iterator[tuple[str, ...]]:
    """The cells of ``columns``, row by row; files other than .csv and .jsonl are read as TSV."""
    return (cells for _, cells in numbered_rows(path, columns))


def numbered_rows(
    path: Path, columns: Sequence[Column | None], numbers: Collection[Column | None] = ()
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """``read_columns`` with line numbers; the columns in ``numbers`` may hold integers in JSON lines."""
    numbered = [_as_number(column) for column in columns]
    rows = _read_jsonl(path, numbered, numbers) if extension(path) == ".jsonl" else _read_rows(path, numbered)
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise CorpusError(f"{path} has no rows; it must have at least one")


def first_cells(path: Path) -> list[str]:
    """The cells of the first row, which are names if it is a header; the keys in JSON lines."""
    if extension(path) == ".jsonl":
        for number, line in numbered_lines(path):
            if line.strip():
                return list(_cells(_parse(line, path, number)))
        return []
    rows = _csv_rows(path) if extension(path) == ".csv" else _tsv_rows(path)
    _, first = next(rows, (0, []))
    return [cell.strip() for cell in first]


def _as_number(column: Column | None) -> Column | None:
    return int(column) if isinstance(column, str) and column.isdecimal() else column


def _read_rows(path: Path, columns: Sequence[Column | None]) -> Iterator[tuple[int, tuple[str, ...]]]:
    rows = _csv_rows(path) if extension(path) == ".csv" else _tsv_rows(path)
    number, first = next(rows, (0, []))
    if not number:
        return
    indices = _column_indices(path, first, columns)
    if all(isinstance(column, int) for column in columns):  # numbers: there is no header, the first row is data
        yield number, tuple(first[index] for index in indices)
    for number, row in rows:
        if len(row) != len(first):
            raise CorpusError(
                f"{path}, line {number}: {_count(len(row), 'column')} where the first row has {len(first)}"
            )
        yield number, tuple(row[index] for index in indices)


def _column_indices(path: Path, header: Sequence[str], columns: Sequence[Column | None]) -> list[int]:
    """Indices of the columns in a row, from 0."""
    names = [name.strip() for name in header]
    if any(isinstance(column, int) for column in columns):
        available = [str(number) for number in range(1, len(names) + 1)]
        if not all(isinstance(column, int) for column in columns):
            raise CorpusError(
                f"{path}: columns {_joined(columns)} mix names and numbers; use names (first row is a header)"
                " or numbers from 1 (no header)"
            )
    else:
        available = names
    return [available.index(_existing_column(str(path), column, available)) for column in columns]


def _existing_column(where: str, column: Column | None, names: Sequence[str]) -> str:
    """The column's name if the file has it.

    Raises:
        CorpusError: It has not; the message lists the columns that it has.
    """
    if column is None:
        raise CorpusError(f"{where}: name the columns to read, by name or number: {abbreviated(names)}")
    if str(column) in names:
        return str(column)
    candidates = [] if isinstance(column, int) else [name[:MAX_NAME_LENGTH] for name in names[:MAX_COMPARED]]
    hint = did_you_mean(str(column)[:MAX_NAME_LENGTH], candidates)
    raise CorpusError(f"{where}: no column {column}; the columns are {abbreviated(names)}{hint}")


def abbreviated(names: Sequence[str]) -> str:
    """The first names for a message, long ones truncated, and how many more there are."""
    first = [
        name if len(name) <= MAX_NAME_LENGTH else f"{name[:MAX_NAME_LENGTH]}..." for name in names[:SHOWN_NAMES]
    ]
    more = len(names) - SHOWN_NAMES
    return ", ".join(first) + (f" and {more:,} more" if more > 0 else "")


def _tsv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    # no quoting: corpora have unpaired quotation marks, at which a CSV reader would join lines
    for number, line in numbered_lines(path):
        if line.strip():
            yield number, line.split("\t")


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line + "\n" for _, line in numbered_lines(path)), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise CorpusError(f"{path}, line {reader.line_num}: not valid CSV ({error})") from error


def _read_jsonl(
    path: Path, columns: Sequence[Column | None], numbers: Collection[Column | None]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    for number, line in numbered_lines(path):
        if line.strip():
            record = _parse(line, path, number)
            yield (
                number,
                tuple(
                    _value(record, column, path, number, allow_integer=column in numbers) for column in columns
                ),
            )


def _parse(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(
            f"{path}, line {number}: not valid JSON at column {error.colno} ({error.msg}); one object per line"
        ) from error
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{path}, line {number}: not usable JSON ({error})") from error
    if not isinstance(record, dict):
        raise CorpusError(
            f"{path}, line {number}: a JSON {_json_type(record)}; each line must be an object such as"
            ' {"de": "...", "en": "..."}'
        )
    return record


def _value(
    record: dict[str, Any], column: Column | None, path: Path, number: int, *, allow_integer: bool = False
) -> str:
    """The text under a key; a dot selects a key of an inner object, as in ``translation.de``."""
    where = f"{path}, line {number}"
    cells = _cells(record)
    value = cells[_existing_column(where, column, list(cells))]
    if allow_integer and type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise CorpusError(f"{where}: {column} is a JSON {_json_type(value)}; it must be a string")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise CorpusError(f"{where}: {column} has half a surrogate pair, which is not text")
    return value


def _cells(record: dict[str, Any]) -> dict[str, Any]:
    """The values of a line by key; those of an inner object are named ``outer.inner``."""
    cells: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            cells.update({f"{name}.{inner}": item for inner, item in value.items()})
        else:
            cells[name] = value
    return cells


def _json_type(value: object) -> str:
    kinds = {dict: "object", list: "list", str: "string", bool: "truth value", type(None): "null"}
    return kinds.get(type(value), "number")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _joined(columns: Sequence[Column | None]) -> str:
    return " and ".join("(none)" if column is None else str(column) for column in columns)
