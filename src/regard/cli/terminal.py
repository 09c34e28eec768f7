"""Results and tables on standard output; progress and messages on standard error."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import rich
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:
    from regard.lessons import Table
    from regard.tasks.results import Summary


class Terminal:
    """A listener that shows a progress bar in a terminal, and plain lines in a file or a pipe."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.live = self.console.is_terminal
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task("training", total=1.0)

    def __enter__(self) -> "Terminal":
        if self.live:
            self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.live:
            self.bar.stop()

    def log(self, message: str) -> None:
        self.console.print(message, soft_wrap=True, markup=False)

    def progress(self, line: str, done: float) -> None:
        line = f"{line}  {memory()}"
        if self.live:
            self.bar.update(self.task, completed=done, description=line)
        else:
            self.log(f"{line}  {done:.0%} done")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Within the block, print warnings on standard error without the line of code that raised them."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: print(message, file=sys.stderr)
        yield


def memory() -> str:
    """Peak memory of the GPU, or of the process if there is none."""
    from regard.training.devices import accelerator_memory

    used = accelerator_memory()
    if used is not None:
        return f"GPU {used / 2**30:.1f} GB"
    try:
        import resource
    except ImportError:  # Windows
        return ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return f"{peak / 2**30:.1f} GB"


def print_summary(summary: "Summary") -> None:
    """Print the result of training or evaluation: lines, a table, and lines after it."""
    console = Console(highlight=False, markup=False, emoji=False)
    for line in summary.lines:
        console.print(line, soft_wrap=True)
    if summary.table is not None:
        grid = Grid(title=summary.table.title, title_justify="left")
        for number, column in enumerate(summary.table.columns):
            grid.add_column(column, justify="right" if number and summary.table.numbers_right else "left")
        for row in summary.table.rows:
            grid.add_row(*row)
        console.print(grid)
    for line in summary.last_lines:
        console.print(line, soft_wrap=True)


def print_table(table: "Table") -> None:
    """Print a table: names left-aligned, numbers right-aligned."""
    rich.print(Text(table.title, "bold"))  # the grid would wrap its own title to its width
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(table.columns):
        grid.add_column(Text(column), justify="right" if index else "left")
    for row in table.rows:
        grid.add_row(*(Text(cell) for cell in row))
    rich.print(grid)


def log(line: str) -> None:
    """Print progress and paths on standard error, so that a program can read standard output."""
    typer.echo(line, err=True)
