"""Results as a person reads them in a terminal."""

from rich.console import Console
from rich.table import Table

from regard.tasks.results import Summary


def print_summary(summary: Summary) -> None:
    """Lines, the table, and the lines after it."""
    console = Console(highlight=False, markup=False, emoji=False)
    for line in summary.lines:
        console.print(line, soft_wrap=True)
    if summary.table is not None:
        content = summary.table
        table = Table(title=content.title, title_justify="left")
        for number, column in enumerate(content.columns):
            table.add_column(column, justify="right" if number and content.numbers_right else "left")
        for row in content.rows:
            table.add_row(*row)
        console.print(table)
    for line in summary.last_lines:
        console.print(line, soft_wrap=True)
