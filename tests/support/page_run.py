"""A page, run from its top as a reader would: files are written, commands and code are run, output is compared."""

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from blocks import RUN, SHOWN, Block, blocks, commands

ROOT = Path(__file__).parents[2]
SEPARATOR = "\x1e"
QUICK, SLOW = 200, 20 * 60
"""Seconds a block may take."""


class PageFailed(AssertionError):
    pass


class PageRun:
    """One reading of a page in a folder; without `slow`, what takes minutes is left out."""

    def __init__(self, page: Path, folder: Path, environment: dict[str, str], *, slow: bool) -> None:
        self.page, self.folder, self.slow = page, folder, slow
        self.environment = environment
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.ran = 0

    def run(self) -> None:
        found = list(blocks(self.page.read_text("utf-8")))
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            for place, block in enumerate(found):
                after = found[place + 1] if place + 1 < len(found) else None
                self.take(block, after if after is not None and after.kind == "output" else None)
        finally:
            os.chdir(here)

    def take(self, block: Block, output: Block | None) -> None:
        """Do what a block asks for."""
        if block.kind in SHOWN or block.why_not is not None:
            if block.why_not == "":
                raise PageFailed(f"{self.where(block)}: not-run must say why")
            return
        if block.file is not None:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
            return
        if block.kind not in RUN:
            raise PageFailed(
                f"{self.where(block)}: a block of {block.kind or 'no kind'} is neither run nor says why"
            )
        if block.slow and not self.slow:
            return
        self.ran += 1
        if block.kind == "console":
            self.take_commands(block)
        else:
            self.take_python(block, output)

    def take_commands(self, block: Block) -> None:
        """All commands of a block in one shell, what each prints compared with what stands under it."""
        found = commands(block.text)
        script = "".join(f'{each.text}\nprintf "{SEPARATOR}%s{SEPARATOR}" "$?"\n' for each in found)
        parts = self.shell(script).split(SEPARATOR)
        for number, each in enumerate(found):
            if 2 * number + 1 >= len(parts):
                raise PageFailed(f"{self.where(block)}: the shell ended before `{each.text}` did:\n{parts[-1]}")
            printed, code = parts[2 * number], int(parts[2 * number + 1])
            if (code != 0) != block.fails:
                raise PageFailed(f"{self.where(block)}: `{each.text}` ended with {code}:\n{printed}")
            self.compare(block, each.text, each.expected, printed)

    def shell(self, script: str) -> str:
        """All that a script prints; what it started does not outlive it."""
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=SLOW if self.slow else QUICK)
        except subprocess.TimeoutExpired:
            raise PageFailed(f"{self.page.name}: this took too long:\n{script}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        return printed.decode("utf-8", "replace")

    def take_python(self, block: Block, output: Block | None) -> None:
        printed = io.StringIO()
        code = compile("\n" * block.line + block.text, str(self.page), "exec")
        try:
            with contextlib.redirect_stdout(printed), warnings_as_lines():
                exec(code, self.names)
        except Exception as problem:
            raise PageFailed(f"{self.where(block)}:\n{traceback.format_exc()}") from problem
        if output is not None:
            self.compare(block, "the code", output.text, printed.getvalue())

    def compare(self, block: Block, what: str, expected: str, printed: str) -> None:
        if block.example or (block.trained and not self.slow):
            if bool(expected.strip()) and not printed.strip():
                raise PageFailed(f"{self.where(block)}: {what} printed nothing")
            return
        if not matches(expected, printed, varying=block.varying):
            raise PageFailed(f"{self.where(block)}: {what} printed\n{printed}\nwhere the page has\n{expected}")

    def where(self, block: Block) -> str:
        return f"{self.page.name}, line {block.line}"


def matches(expected: str, printed: str, *, varying: bool = False) -> bool:
    """Whether a page's output is what was printed; `...` stands for anything, blanks at ends of lines do not count.

    With `varying`, any number stands for any other, and any run of blanks.
    """
    wanted = "\n".join(line.rstrip() for line in expected.strip("\n").splitlines())
    got = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
    pattern = re.escape(wanted).replace(re.escape("..."), ".*?")
    if varying:
        pattern = re.sub(r"(\\ )+", r"\\s+", re.sub(r"\d(\d|,|\\\.(?=\d))*", lambda _: r"\d[\d.,]*", pattern))
    return re.fullmatch(pattern, got, re.DOTALL) is not None


@contextlib.contextmanager
def warnings_as_lines():
    """Progress that Python code prints to standard error is not compared."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield


def environment(folder: Path, programs: Path) -> dict[str, str]:
    """What a reader's shell has: the commands on its path, a width, no colours."""
    places = f"{programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        **os.environ,
        "PATH": places,
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "MPLBACKEND": "agg",
        "REGARD_CACHE": str(folder),
    }


STAND_INS = re.compile(r"<!-- stand-ins: (.+?) -->")
"""What the slow blocks of the page make, and which small run stands for it: `runs/mine=picturebook`."""


def prepare(page: Path, folder: Path, made: Callable[[str], Path], pattern: re.Pattern[str]) -> None:
    """Lay the runs that a page names where it looks for them, and the files of an example beside it."""
    for found in pattern.findall(page.read_text("utf-8")):
        for wanted in found.split():
            place, _, name = wanted.partition("=")
            shutil.copytree(made(name or Path(place).name), folder / place, dirs_exist_ok=True)
    if page.is_relative_to(ROOT / "examples"):
        shutil.copytree(page.parent, folder, dirs_exist_ok=True)
