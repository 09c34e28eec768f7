"""Texts, or pairs of texts, with a label each, out of the tables people have."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.lines import CorpusError
from regard.data.tables import COMPARED, Column, first_cells, kind, numbered_rows, shortened
from regard.errors import did_you_mean

USUAL = {
    "text": ("text", "sentence", "review", "sentence1", "sentence_a", "text_a", "premise"),
    "pair": ("pair", "sentence2", "sentence_b", "text_b", "hypothesis"),
    "label": ("label", "gold_label", "entailment_judgment", "sentiment", "class"),
}
"""Names of columns that are found without being told."""


@dataclass(frozen=True)
class Labelled:
    """One example, and the line it stands in."""

    text: str
    pair: str | None
    label: str
    line: int


@dataclass(frozen=True)
class Columns:
    """Where text, second text and label stand: by name, by number from 1, or to be found."""

    text: Column | None = None
    pair: Column | None = None
    label: Column | None = None


def read_labelled(path: Path, columns: Columns = Columns(), *, pairs: bool = False) -> Iterator[Labelled]:  # noqa: B008
    """The examples of a .tsv, .csv or .jsonl file, plain or .gz; a text or a label that is empty is refused."""
    parts = ("text", "pair", "label") if pairs else ("text", "label")
    chosen = choose_columns(path, columns, parts)
    for line, cells in numbered_rows(path, chosen, numbers=(chosen[-1],)):
        found = {part: " ".join(cell.split()) for part, cell in zip(parts, cells, strict=True)}
        for part, cell in found.items():
            if not cell:
                raise CorpusError(f"{path}, line {line}: the {part} is empty")
        yield Labelled(found["text"], found.get("pair"), found["label"], line)


def choose_columns(path: Path, given: Columns, parts: Sequence[str]) -> list[Column]:
    """The columns told, else those with usual names, else the first ones of a file that has no others."""
    told = [getattr(given, part) for part in parts]
    if any(each is not None for each in told):
        for part, each in zip(parts, told, strict=True):
            if each is None:
                raise CorpusError(f"{path}: say which column is the {part} too: data.{part}=...")
        return told
    names = first_cells(path)
    by_name = {name.casefold(): name for name in reversed(names)}
    usual = [next((by_name[name] for name in USUAL[part] if name in by_name), None) for part in parts]
    if all(usual):
        return [name for name in usual if name]
    if kind(path) != ".jsonl" and len(names) == len(parts):
        return list(range(1, len(parts) + 1))
    wanted = ", ".join(f"data.{part}=..." for part in parts)
    raise CorpusError(f"{path}: say which columns to read ({wanted}); there are {shortened(names)}")


def labels_of(examples: Sequence[Labelled], path: Path) -> list[str]:
    """The labels in order; one alone leaves nothing to learn."""
    found = sorted({each.label for each in examples})
    if not found:
        raise CorpusError(f"{path}: there is no example; telling texts apart needs two labels")
    if len(found) == 1:
        raise CorpusError(
            f"{path}, lines {examples[0].line:,} to {examples[-1].line:,}: all examples have the label "
            f"{found[0]!r}; telling texts apart needs two labels"
        )
    return found


def check_labels(examples: Sequence[Labelled], labels: Sequence[str], path: Path) -> None:
    """Refuse a label that the model does not know."""
    known = set(labels)
    for each in examples:
        if each.label not in known:
            hint = did_you_mean(each.label, labels[:COMPARED])
            raise CorpusError(
                f"{path}, line {each.line}: the label {each.label!r} was not among those of the training"
                f" examples, which are {shortened(labels)}{hint}"
            )


def balance(examples: Sequence[Labelled]) -> str:
    """How the labels are spread: `3,610 x 1, 3,310 x 0`, the most frequent first."""
    counted = Counter(each.label for each in examples).most_common()
    told = ", ".join(f"{count:,} x {label}" for label, count in counted)
    most, least = counted[0][1], counted[-1][1]
    uneven = f"; the most frequent is {most / least:.1f} times the rarest" if most >= 2 * least else ""
    return told + uneven
