"""`regard report`: an HTML report of a training run."""

from pathlib import Path
from typing import Annotated

import typer

from regard import __version__, storage
from regard.cli.arguments import Run
from regard.errors import RegardError


def report(
    run: Run,
    output: Annotated[Path, typer.Option("-o", "--output", help="Output page, .html.")] = Path("report.html"),
) -> None:
    """Write a report of a training run: curves, samples, BLEU by length, attention, recipe, environment.

    A translation run translates its test sentences for it, which can take a minute.

    Example:  regard report runs/picturebook -o report.html
    """
    from regard.cli.terminal import Terminal, plain_warnings
    from regard.tasks.report import report as report_page

    if output.suffix != ".html":
        raise RegardError(f"{output}: a report is written as .html")
    with plain_warnings():
        page = report_page(run, __version__, Terminal())
    output.parent.mkdir(parents=True, exist_ok=True)
    storage.write_text(output, page)
    print(f"report: {output}")
