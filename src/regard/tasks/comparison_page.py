"""A comparison of translation runs as one HTML page: tables, curves, BLEU by length, outputs side by side."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from regard.metrics import sentence_chrf
from regard.tasks.comparison import Comparison
from regard.tasks.report import length_chart
from regard.viz.html_chart import Series, line_chart
from regard.viz.html_report import HtmlReport, mark_changes

DIFFERENCES = 10
"""Sentences listed whose outputs differ most."""


class TitledTable(Protocol):
    """A table of formatted cells."""

    @property
    def title(self) -> str: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]: ...


def comparison_page(comparison: Comparison, lines: Iterable[str], tables: Iterable[TitledTable]) -> str:
    """The comparison as an HTML page.

    Args:
        comparison: The runs and their scores.
        lines: What was compared, above the tables.
        tables: The numbers, formatted.
    """
    page = HtmlReport(f"Comparison of {', '.join(run.name for run in comparison.runs)}")
    for line in (*lines, f"BLEU signature: {comparison.signature}"):
        page.paragraph(line)
    for table in tables:
        page.section(table.title)
        page.table(table.columns, table.rows)
    page.section("Curves", "Point at a chart, or use the arrow keys in it, to read its values.")
    by_length = [(run.name, run.evaluation.by_length) for run in comparison.runs]
    page.charts(filter(None, [validation_chart(comparison), length_chart(by_length)]))
    add_differences(page, comparison)
    return page.html()


def validation_chart(comparison: Comparison) -> str:
    """Validation BLEU of the runs that have metrics; empty if there is none."""
    lines = [
        Series(
            run.name,
            [row["minutes"] for row in run.history.validations],
            [row["bleu"] for row in run.history.validations],
            number,
            markers=True,
        )
        for number, run in enumerate(comparison.runs)
        if run.history is not None and run.history.validations
    ]
    title = "Validation BLEU, greedy, in training"
    return line_chart(title, "minutes", lines, form=".2f") if lines else ""


def add_differences(page: HtmlReport, comparison: Comparison) -> None:
    """Sentences whose outputs differ most, with the outputs of all runs."""
    outputs = [run.evaluation.translations for run in comparison.runs]
    references = comparison.runs[0].evaluation.references
    scores = [sentence_chrf(translations, references) for translations in outputs]
    chosen = most_different(outputs, DIFFERENCES)
    if not chosen:
        page.section("Outputs", "All runs translate every sentence alike.")
        return
    page.section(
        f"{len(chosen)} sentences whose outputs differ most",
        "Words that differ from the reference are marked; at the right, chrF.",
    )
    for number in chosen:
        reference = references[number]
        rows: list[tuple[str, str, str]] = [
            ("source", comparison.sources[number], ""),
            ("reference", reference, ""),
        ]
        for run, translations, chrf in zip(comparison.runs, outputs, scores, strict=True):
            rows.append((run.name, mark_changes(translations[number], reference), f"{chrf[number]:.1f}"))
        page.table((), rows)


def most_different(outputs: Sequence[Sequence[str]], count: int) -> list[int]:
    """Sentences with the lowest chrF of an output against the first run's; equal outputs are left out."""
    first, *others = outputs
    similarity = [
        min(scores) for scores in zip(*(sentence_chrf(other, first) for other in others), strict=True)
    ]
    different = [number for number, texts in enumerate(zip(*outputs, strict=True)) if len(set(texts)) > 1]
    return sorted(different, key=similarity.__getitem__)[:count]
