"""`regard report`: a training on one page."""

from pathlib import Path

from regard import __version__, storage
from regard.cli.terminal import Terminal, plain_warnings
from regard.errors import RegardError
from regard.tasks.report import report


def run(folder: Path, output: Path) -> None:
    """Write the page and say where it is."""
    if output.suffix != ".html":
        raise RegardError(f"{output}: a report is written as .html")
    with plain_warnings():
        page = report(folder, __version__, Terminal())
    output.parent.mkdir(parents=True, exist_ok=True)
    storage.write_text(output, page)
    print(f"report: {output}")
