"""Progress of a training on standard error: a live line, and a sentence for every event."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


class Terminal:
    """A progress bar on a terminal, plain lines in a log file or a pipe."""

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

    def __exit__(self, *problem: object) -> None:
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
    """A warning is one sentence on standard error, without the line of code it came from."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: print(message, file=sys.stderr)
        yield


def memory() -> str:
    """Peak memory of the GPU, or of the process where there is none."""
    from regard.training.devices import accelerator_memory

    used = accelerator_memory()
    if used is not None:
        return f"GPU {used / 2**30:.1f} GB"
    try:
        import resource
    except ImportError:  # a system without it
        return ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return f"{peak / 2**30:.1f} GB"
