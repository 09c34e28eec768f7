"""`regard compare`: runs side by side, as tables, Markdown, JSON and a picture."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from regard.cli.show import print_table, tell
from regard.cli.terminal import Terminal
from regard.errors import RegardError
from regard.lessons.lesson import Table
from regard.tasks.comparison import Comparison, compare
from regard.viz.comparison import draw_comparison
from regard.viz.figure import save_as

PICTURES = (".png", ".svg")
UNKNOWN = "–"


def run(
    runs: list[Path],
    source: Path | None,
    target: Path | None,
    beam: int | None,
    outputs: list[Path],
    as_json: bool,
) -> None:
    """Compare, print, and write each file in the format of its ending."""
    check_endings(outputs)
    found = compare(runs, source=source, target=target, beam=beam, audience=Terminal())
    if as_json:
        print(json_text(found))
    else:
        print(f"{heading(found)}\n")
        for table in tables(found):
            print_table(table)
        print(f"signature: {found.signature}")
    for path in outputs:
        write(found, path, outputs)
        tell(f"wrote {path}")


def check_endings(outputs: Sequence[Path]) -> None:
    for path in outputs:
        if path.suffix not in (".md", ".json", *PICTURES):
            raise RegardError(f"{path}: a comparison is written as .md, .json, .png or .svg")


def write(found: Comparison, path: Path, outputs: Sequence[Path]) -> None:
    try:
        if path.suffix in PICTURES:
            save_as(draw_comparison(found.as_json()), path)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = next((each for each in outputs if each.suffix in PICTURES), None)
        text = json_text(found) + "\n" if path.suffix == ".json" else markdown(found, path, picture)
        path.write_text(text, "utf-8")
    except OSError as problem:
        raise RegardError(f"{path} cannot be written: {problem.strerror or problem}") from None


def json_text(found: Comparison) -> str:
    return json.dumps(found.as_json(), ensure_ascii=False, allow_nan=False)


def heading(found: Comparison) -> str:
    return f"{found.sentences:,} sentences: {found.test_set}"


def tables(found: Comparison) -> list[Table]:
    """What was trained, how well it translates, and for which lengths; a row a run in each."""
    return [training_table(found), score_table(found), length_table(found)]


def training_table(found: Comparison) -> Table:
    rows = []
    for each in found.runs:
        past = each.history
        told = (
            (f"{past.steps:,}", f"{past.minutes:.1f}", number(past.tokens_per_second, ",.0f"))
            if past
            else (UNKNOWN,) * 3
        )
        rows.append((each.name, each.model, f"{each.parameters:,}", *told))
    return Table("Training", ("run", "model", "parameters", "steps", "minutes", "tokens/s"), tuple(rows))


def score_table(found: Comparison) -> Table:
    rows = []
    for each in found.runs:
        quality = each.evaluation.quality
        bleu = f"{quality.bleu:.2f} ± {each.paired.half_width:.2f}"
        scores = bleu, number(each.paired.p_value, ".4f"), f"{quality.chrf:.2f}", f"{quality.ter:.2f}"
        rows.append((each.name, *scores, str(each.beam), f"{each.sentences_per_second:,.1f}"))
    return Table(
        f"Scores (±: 95% interval; p: paired bootstrap against {found.runs[0].name})",
        ("run", "BLEU", "p", "chrF", "TER", "beam", "sentences/s"),
        tuple(rows),
    )


def length_table(found: Comparison) -> Table:
    """BLEU by source length; every run has the same lengths, for the sentences are the same."""
    first = found.runs[0].evaluation.by_length
    counts = ("sentences", *(f"{row['sentences']:,}" for row in first))
    scores = [(each.name, *(f"{row['bleu']:.2f}" for row in each.evaluation.by_length)) for each in found.runs]
    return Table(
        "BLEU by source length in words", ("run", *(str(row["words"]) for row in first)), (counts, *scores)
    )


def number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)


def markdown(found: Comparison, path: Path, picture: Path | None) -> str:
    """The comparison as a Markdown page at `path`; the picture is linked from there."""
    parts = [f"# Comparison of {', '.join(each.name for each in found.runs)}", f"{heading(found)}."]
    for table in tables(found):
        parts += [f"## {table.title}", markdown_table(table)]
    parts.append(f"BLEU signature: `{found.signature}`")
    if picture is not None:
        link = quote(Path(os.path.relpath(picture, path.parent)).as_posix())
        parts.append(f"![BLEU of each run, by source length, and in training]({link})")
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    rules = [":---", *["---:"] * (len(table.columns) - 1)]
    rows = [[cell.replace("|", r"\|") for cell in row] for row in (table.columns, *table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rules, *rows[1:]))
