"""`regard compare`: runs side by side, as tables, HTML, Markdown, JSON and a picture."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from regard.cli.arguments import AsJson, Beam, Source, Target
from regard.errors import RegardError
from regard.lessons import Table

if TYPE_CHECKING:
    from regard.tasks.comparison import Comparison

PICTURES = (".png", ".svg")
UNKNOWN = "–"


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Two or more run folders; the first run is the baseline."),
    ],
    source: Source = None,
    target: Target = None,
    beam: Beam = None,
    outputs: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="Output file (.html, .md, .json, .png or .svg); repeat for more."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs on the same sentences: size, training, speed, BLEU, chrF, TER, paired bootstrap test.

    Examples:

    regard compare runs/words runs/bpe -o page.html

    regard compare runs/words runs/bpe --source test.de --target test.en -o report.md -o report.png
    """
    from regard.cli.terminal import Terminal, log, print_table
    from regard.tasks.comparison import compare as compare_runs

    outputs = outputs or []
    check_suffixes(outputs)
    comparison = compare_runs(runs, source=source, target=target, beam=beam, listener=Terminal())
    if as_json:
        print(json_text(comparison))
    else:
        print("\n".join(heading(comparison)) + "\n")
        for table in tables(comparison):
            print_table(table)
        print(f"signature: {comparison.signature}")
    for path in outputs:
        write(comparison, path, outputs)
        log(f"wrote {path}")


def check_suffixes(outputs: Sequence[Path]) -> None:
    for path in outputs:
        if path.suffix not in (".html", ".md", ".json", *PICTURES):
            raise RegardError(f"{path}: a comparison is written as .html, .md, .json, .png or .svg")


def write(comparison: "Comparison", path: Path, outputs: Sequence[Path]) -> None:
    """Write the comparison in the format of the file's suffix.

    Raises:
        RegardError: the file cannot be written.
    """
    from regard.tasks.comparison_page import comparison_page
    from regard.viz.charts import draw_comparison
    from regard.viz.figure import save_as

    try:
        if path.suffix in PICTURES:
            save_as(draw_comparison(comparison.as_json()), path)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".html":
            text = comparison_page(comparison, heading(comparison), tables(comparison))
        elif path.suffix == ".json":
            text = json_text(comparison) + "\n"
        else:
            picture = next((output for output in outputs if output.suffix in PICTURES), None)
            text = markdown(comparison, path, picture)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise RegardError(f"{path} cannot be written: {error.strerror or error}") from None


def json_text(comparison: "Comparison") -> str:
    return json.dumps(comparison.as_json(), ensure_ascii=False, allow_nan=False)


def heading(comparison: "Comparison") -> list[str]:
    """What is compared: the sentences, and the model if it is the same in all runs."""
    models = {run.model for run in comparison.runs}
    sentences = f"{comparison.sentences:,} sentences: {comparison.test_set}"
    return [sentences, *([f"model: {models.pop()}"] if len(models) == 1 else [])]


def tables(comparison: "Comparison") -> list[Table]:
    """Training, scores, and BLEU by source length."""
    return [training_table(comparison), score_table(comparison), length_table(comparison)]


def training_table(comparison: "Comparison") -> Table:
    rows = []
    differ = len({run.model for run in comparison.runs}) > 1  # else the heading has the model
    for run in comparison.runs:
        history = run.history
        training = (
            (f"{history.steps:,}", f"{history.minutes:.1f}", number(history.tokens_per_second, ",.0f"))
            if history
            else (UNKNOWN,) * 3
        )
        model = (run.model,) if differ else ()
        rows.append((run.name, *model, f"{run.parameters:,}", *training))
    model_column = ("model",) if differ else ()
    columns = ("run", *model_column, "parameters", "steps", "minutes", "tokens/s")
    return Table("Training", columns, tuple(rows))


def score_table(comparison: "Comparison") -> Table:
    rows = []
    for run in comparison.runs:
        quality = run.evaluation.quality
        bleu = f"{quality.bleu:.2f} ± {run.paired.half_width:.2f}"
        scores = bleu, p_text(run.paired.p_value), f"{quality.chrf:.2f}", f"{quality.ter:.2f}"
        rows.append((run.name, *scores, str(run.beam), f"{run.sentences_per_second:,.1f}"))
    return Table(
        f"Scores (±: 95% interval; p: paired bootstrap test against {comparison.runs[0].name})",
        ("run", "BLEU", "p", "chrF", "TER", "beam", "sentences/s"),
        tuple(rows),
    )


def length_table(comparison: "Comparison") -> Table:
    """BLEU by source length; the first row is the number of sentences, the same for every run."""
    first = comparison.runs[0].evaluation.by_length
    counts = ("sentences", *(f"{row['sentences']:,}" for row in first))
    scores = [
        (run.name, *(f"{row['bleu']:.2f}" for row in run.evaluation.by_length)) for run in comparison.runs
    ]
    return Table(
        "BLEU by source length in words", ("run", *(str(row["words"]) for row in first)), (counts, *scores)
    )


def p_text(p_value: float | None) -> str:
    """A p-value; below the floor of the resamples it is only known to be smaller."""
    from regard.metrics import RESAMPLES

    if p_value is not None and p_value <= 1 / RESAMPLES:
        return f"< {1 / RESAMPLES:g}"
    return number(p_value, ".3f")


def number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)


def markdown(comparison: "Comparison", path: Path, picture: Path | None) -> str:
    """The comparison as a Markdown page at `path`, with a relative link to the picture."""
    parts = [f"# Comparison of {', '.join(run.name for run in comparison.runs)}"]
    parts += [f"{line}." for line in heading(comparison)]
    for table in tables(comparison):
        parts += [f"## {table.title}", markdown_table(table)]
    parts.append(f"BLEU signature: `{comparison.signature}`")
    if picture is not None:
        link = quote(Path(os.path.relpath(picture, path.parent)).as_posix())
        parts.append(f"![BLEU of each run, by source length, and in training]({link})")
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    rules = [":---", *["---:"] * (len(table.columns) - 1)]
    rows = [[cell.replace("|", r"\|") for cell in row] for row in (table.columns, *table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rules, *rows[1:]))
