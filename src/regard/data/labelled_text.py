"""Labelled texts, or text pairs, from tables."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.tables import MAX_COMPARED, Column, abbreviated, extension, first_cells, numbered_rows
from regard.data.text_files import CorpusError
from regard.errors import did_you_mean

USUAL_NAMES = {
    "text": ("text", "sentence", "review", "sentence1", "sentence_a", "text_a", "premise"),
    "pair": ("pair", "sentence2", "sentence_b", "text_b", "hypothesis"),
    "label": ("label", "gold_label", "entailment_judgment", "sentiment", "class"),
}
"""Column names that are recognised without configuration."""


@dataclass(frozen=True)
class LabelledText:
    """A labelled text or text pair, and its line in the file."""

    text: str
    pair: str | None
    label: str
    line: int


@dataclass(frozen=True)
class LabelledColumns:
    """The columns of text, second text and label: names, numbers from 1, or None to detect them."""

    text: Column | None = None
    pair: Column | None = None
    label: Column | None = None


def read_labelled(
    path: Path,
    columns: LabelledColumns = LabelledColumns(),  # noqa: B008
    *,
    pairs: bool = False,
) -> Iterator[LabelledText]:
    """Read the examples of a .tsv, .csv or .jsonl file, plain or .gz.

    Raises:
        CorpusError: The file cannot be read, the columns cannot be determined, or a cell is empty.
    """
    parts = ("text", "pair", "label") if pairs else ("text", "label")
    chosen = choose_columns(path, columns, parts)
    for line, cells in numbered_rows(path, chosen, numbers=(chosen[-1],)):
        row = {part: " ".join(cell.split()) for part, cell in zip(parts, cells, strict=True)}
        for part, cell in row.items():
            if not cell:
                raise CorpusError(f"{path}, line {line}: the {part} is empty")
        yield LabelledText(row["text"], row.get("pair"), row["label"], line)


def choose_columns(path: Path, configured: LabelledColumns, parts: Sequence[str]) -> list[Column]:
    """The configured columns, else those with usual names, else the first ones of a file that has no others."""
    columns = [getattr(configured, part) for part in parts]
    if any(column is not None for column in columns):
        for part, column in zip(parts, columns, strict=True):
            if column is None:
                raise CorpusError(f"{path}: name the column of the {part} too: data.{part}=...")
        return columns
    names = first_cells(path)
    by_name = {name.casefold(): name for name in reversed(names)}
    usual = [next((by_name[name] for name in USUAL_NAMES[part] if name in by_name), None) for part in parts]
    if all(usual):
        return [name for name in usual if name]
    if extension(path) != ".jsonl" and len(names) == len(parts):
        return list(range(1, len(parts) + 1))
    options = ", ".join(f"data.{part}=..." for part in parts)
    raise CorpusError(f"{path}: name the columns to read ({options}); the columns are {abbreviated(names)}")


def distinct_labels(examples: Sequence[LabelledText], path: Path) -> list[str]:
    """The labels in order.

    Raises:
        CorpusError: There are no examples, or only one label.
    """
    labels = sorted({example.label for example in examples})
    if not labels:
        raise CorpusError(f"{path}: there are no examples; at least two labels are needed")
    if len(labels) == 1:
        raise CorpusError(
            f"{path}, lines {examples[0].line:,} to {examples[-1].line:,}: all examples have the label "
            f"{labels[0]!r}; at least two labels are needed"
        )
    return labels


def check_labels(examples: Sequence[LabelledText], labels: Sequence[str], path: Path) -> None:
    """Raise CorpusError for a label that the training examples do not have."""
    known = set(labels)
    for example in examples:
        if example.label not in known:
            hint = did_you_mean(example.label, labels[:MAX_COMPARED])
            raise CorpusError(
                f"{path}, line {example.line}: the label {example.label!r} was not among those of the training"
                f" examples, which are {abbreviated(labels)}{hint}"
            )


def label_distribution(examples: Sequence[LabelledText]) -> str:
    """Counts of the labels, the most frequent first: `3,610 x 1, 3,310 x 0`."""
    counted = Counter(example.label for example in examples).most_common()
    counts = ", ".join(f"{count:,} x {label}" for label, count in counted)
    most, least = counted[0][1], counted[-1][1]
    uneven = f"; the most frequent is {most / least:.1f} times the rarest" if most >= 2 * least else ""
    return counts + uneven
