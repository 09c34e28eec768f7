"""Scores and tables as several commands print them; paths and progress go to standard error."""

from typing import TYPE_CHECKING

import rich
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:
    from regard.lessons import Table
    from regard.tasks.results import Summary


def print_summary(summary: "Summary") -> None:
    """The result of a training or an evaluation: lines, a table, and lines after it."""
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
    """One table on standard output: names left-aligned, numbers right-aligned."""
    rich.print(Text(table.title, "bold"))  # not as the grid's title, which is folded to the grid's width
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(table.columns):
        grid.add_column(Text(column), justify="right" if index else "left")
    for row in table.rows:
        grid.add_row(*(Text(cell) for cell in row))
    rich.print(grid)


def log(line: str) -> None:
    """Progress and paths: on standard error, so that a program can read standard output."""
    typer.echo(line, err=True)
