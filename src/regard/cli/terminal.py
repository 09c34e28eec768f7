"""Results and tables on standard output; progress and messages on standard error."""

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rich
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:
    from regard.lessons import Table
    from regard.tasks.metrics_log import PhaseProgress, TrainingStatus
    from regard.tasks.results import Summary

FRAMES_PER_SECOND = 4
LABEL_WIDTH = 7
"""Columns of the name of a phase, and of the lines below it."""
SEPARATOR = " · "
ASCII = str.maketrans({"★": "*", "·": "|", "━": "=", "╸": ">", "─": "-"})
"""For a terminal whose encoding does not have these characters."""


class Terminal:
    """A listener with a live display in a terminal, and plain lines in a file or a pipe.

    Args:
        console: Default: standard error.
        clock: Seconds since any moment.
        patience: Seconds after which a phase is announced in a file or a pipe. Shorter ones are not, so that
            the message of a mistake stays the only line.
    """

    def __init__(
        self,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        patience: float = 5.0,
    ) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.clock, self.patience = clock, patience
        self.status: TrainingStatus | None = None
        self.status_time = 0.0
        self.phases: list[Phase] = []
        self.display = Live(
            console=self.console,
            get_renderable=self.render,
            refresh_per_second=FRAMES_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> "Terminal":
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self.display.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.display.stop()

    @property
    def is_live(self) -> bool:
        return self.display.is_started

    def log(self, message: str) -> None:
        self.console.print(self.printable(message), soft_wrap=True, markup=False)

    def progress(self, line: str, done: float) -> None:
        if not self.is_live:
            self.log(f"{line}  {memory()}  {done:.0%} done")

    def update(self, status: "TrainingStatus | None") -> None:
        self.status, self.status_time = status, self.clock()

    @contextmanager
    def phase(
        self, name: str, detail: str = "", *, total: int = 0, unit: str = "", announce: bool = True
    ) -> Iterator["PhaseProgress"]:
        from regard.tasks.metrics_log import PhaseProgress

        phase = Phase(name, detail, PhaseProgress(total, unit), self.clock())
        announcement = threading.Timer(self.patience, self.log, [phase.announcement()])
        announcement.daemon = True
        if announce and not self.is_live:
            if self.patience:
                announcement.start()
            else:
                self.log(phase.announcement())
        self.phases.append(phase)
        try:
            yield phase.progress
        finally:
            announcement.cancel()
            self.phases.remove(phase)

    def render(self) -> Text:
        """The lines of the display: the training run, then the phase within it."""
        lines = [] if self.status is None else self.training_lines(self.status)
        if self.phases:
            lines.append(self.phase_line(self.phases[-1]))
        text = Text(self.printable("\n".join(lines)), no_wrap=True, overflow="ellipsis")
        text.highlight_regex(r"(?m)^\w+", "bold")
        text.highlight_regex(r"━+╸?", "green")
        text.highlight_regex(r"─+", "dim")
        return text

    def training_lines(self, status: "TrainingStatus") -> list[str]:
        """Bar, percentage and numbers, in as many lines as the width of the terminal needs."""
        seconds = status.seconds + self.clock() - self.status_time
        times = duration(seconds)
        if status.done > 0:
            times += f" / ETA {duration(max(0.0, status.seconds / status.done - seconds))}"
        first = f"{'train':{LABEL_WIDTH}}{self.bar(status.done)}  {int(100 * status.done):>3}%  "
        return wrapped(first, [*status.parts, memory(), times], self.console.width)

    def phase_line(self, phase: "Phase") -> str:
        progress, parts = phase.progress, [phase.detail] if phase.detail else []
        line = f"{phase.name:{LABEL_WIDTH - 1}} "
        if progress.total:
            line += f"{self.bar(progress.done / progress.total)}  "
            parts.insert(0, f"{progress.done:,}/{progress.total:,} {progress.unit}")
        return line + SEPARATOR.join([*parts, duration(self.clock() - phase.start)])

    def bar(self, done: float) -> str:
        width = max(10, min(30, self.console.width // 5))
        halves = int(2 * width * min(1.0, done))
        return ("━" * (halves // 2) + "╸" * (halves % 2)).ljust(width, "─")

    def printable(self, text: str) -> str:
        return text if self.console.encoding.startswith("utf") else text.translate(ASCII)


@dataclass(frozen=True)
class Phase:
    """A part of a command that has begun."""

    name: str
    detail: str
    progress: "PhaseProgress"
    start: float

    def announcement(self) -> str:
        """A line for a log file, such as `test: 1,000 sentences, beam 5 ...`."""
        count = f"{self.progress.total:,} {self.progress.unit}" if self.progress.total else ""
        parts = ", ".join(part for part in (count, self.detail) if part)
        return f"{self.name}: {parts} ..." if parts else f"{self.name} ..."


def wrapped(line: str, parts: Sequence[str], width: int) -> list[str]:
    """Parts after the beginning of a line; where the width is used up, they continue in a new line."""
    lines, separator = [line], ""
    for part in parts:
        if separator and len(lines[-1] + separator + part) >= width:
            lines.append(" " * LABEL_WIDTH + part)
        else:
            lines[-1] += separator + part
        separator = SEPARATOR
    return lines


def duration(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any: 1:44, 2:03:10."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


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


def log_next_commands(run: Path) -> None:
    """Name on standard error the commands that fit a new run folder."""
    from regard.tasks.registry import spec_of
    from regard.tasks.run_folder import RunFolder

    recipe = RunFolder.open(run).read_recipe()
    commands = spec_of(recipe).next_commands(run, recipe)
    if commands:
        log(f"next   {SEPARATOR.join(commands)}")


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
