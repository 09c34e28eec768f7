"""Columns out of TSV, CSV and JSON lines: found by name or number, every bad row with its file and line."""

import csv
import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.lines import CorpusError, numbered_lines
from regard.errors import did_you_mean

Column = str | int  # a name from the header, or a number from 1 in a file without a header

KINDS = (".tsv", ".csv", ".jsonl")

SHOWN, LONGEST_NAME = 10, 40
"""Column names in a sentence, and characters of each."""
COMPARED = 1000
"""Column names compared with a wrong one, to suggest what was meant: comparing a million takes minutes."""


def kind(path: Path) -> str:
    """The extension that decides how a file is read: ``.tsv`` for ``train.tsv`` and for ``train.TSV.gz``."""
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return plain.suffix.lower()


def read_columns(path: Path, columns: Sequence[Column | None]) -> Iterator[tuple[str, ...]]:
    """The cells of ``columns``, row by row; a file that is neither .csv nor .jsonl is read as TSV."""
    return (cells for _, cells in numbered_rows(path, columns))


def numbered_rows(
    path: Path, columns: Sequence[Column | None], numbers: Collection[Column | None] = ()
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """``read_columns`` with the line of each row; in JSON lines, ``numbers`` may be whole numbers too."""
    wanted = [_as_number(column) for column in columns]
    rows = _read_jsonl(path, wanted, numbers) if kind(path) == ".jsonl" else _read_rows(path, wanted)
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise CorpusError(f"{path} has no rows; it must hold at least one")


def first_cells(path: Path) -> list[str]:
    """What the first row holds: names where it is a header; in JSON lines its keys."""
    if kind(path) == ".jsonl":
        for number, line in numbered_lines(path):
            if line.strip():
                return list(_cells(_parse(line, path, number)))
        return []
    rows = _csv_rows(path) if kind(path) == ".csv" else _tsv_rows(path)
    _, first = next(rows, (0, []))
    return [cell.strip() for cell in first]


def _as_number(column: Column | None) -> Column | None:
    return int(column) if isinstance(column, str) and column.isdecimal() else column


def _read_rows(path: Path, wanted: Sequence[Column | None]) -> Iterator[tuple[int, tuple[str, ...]]]:
    rows = _csv_rows(path) if kind(path) == ".csv" else _tsv_rows(path)
    number, first = next(rows, (0, []))
    if not number:
        return
    places = _places(path, first, wanted)
    if all(isinstance(column, int) for column in wanted):  # numbers: there is no header, the first row is data
        yield number, tuple(first[place] for place in places)
    for number, row in rows:
        if len(row) != len(first):
            raise CorpusError(
                f"{path}, line {number}: {_count(len(row), 'column')} where the first row has {len(first)}"
            )
        yield number, tuple(row[place] for place in places)


def _places(path: Path, header: Sequence[str], wanted: Sequence[Column | None]) -> list[int]:
    """Where the wanted columns stand in a row, from 0."""
    names = [name.strip() for name in header]
    if any(isinstance(column, int) for column in wanted):
        shown = [str(number) for number in range(1, len(names) + 1)]
        if not all(isinstance(column, int) for column in wanted):
            raise CorpusError(
                f"{path}: columns {_listed(wanted)} mix names and numbers; use names (first row is a header)"
                " or numbers from 1 (no header)"
            )
    else:
        shown = names
    return [shown.index(_known(str(path), column, shown)) for column in wanted]


def _known(where: str, column: Column | None, names: Sequence[str]) -> str:
    """The column's name if the file has it; otherwise a sentence with the ones it has."""
    if column is None:
        raise CorpusError(f"{where}: say which columns to read, by name or number: {shortened(names)}")
    if str(column) in names:
        return str(column)
    near = [] if isinstance(column, int) else [name[:LONGEST_NAME] for name in names[:COMPARED]]
    hint = did_you_mean(str(column)[:LONGEST_NAME], near)
    raise CorpusError(f"{where}: no column {column}; there are {shortened(names)}{hint}")


def shortened(names: Sequence[str]) -> str:
    """The first names for a sentence, long ones cut, and how many more there are."""
    first = [name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..." for name in names[:SHOWN]]
    more = len(names) - SHOWN
    return ", ".join(first) + (f" and {more:,} more" if more > 0 else "")


def _tsv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    # no quoting: corpora hold single quotation marks, which a CSV reader would run together over many lines
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
    path: Path, wanted: Sequence[Column | None], numbers: Collection[Column | None]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    for number, line in numbered_lines(path):
        if line.strip():
            record = _parse(line, path, number)
            yield (
                number,
                tuple(_value(record, column, path, number, whole=column in numbers) for column in wanted),
            )


def _parse(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(
            f"{path}, line {number}: not valid JSON at column {error.colno} ({error.msg}); one object a line"
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
    record: dict[str, Any], column: Column | None, path: Path, number: int, *, whole: bool = False
) -> str:
    """The text under a key; a dot steps inside, as in ``translation.de``."""
    where = f"{path}, line {number}"
    cells = _cells(record)
    value = cells[_known(where, column, list(cells))]
    if whole and type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise CorpusError(f"{where}: {column} is a JSON {_json_type(value)}; it must be a string")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise CorpusError(f"{where}: {column} holds half a surrogate pair, which is not text")
    return value


def _cells(record: dict[str, Any]) -> dict[str, Any]:
    """What a line offers: its keys, and in place of an object its inner keys as ``outer.inner``."""
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


def _listed(columns: Sequence[Column | None]) -> str:
    return " and ".join("(none)" if column is None else str(column) for column in columns)
