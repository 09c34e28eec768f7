"""Runs a documentation page from top to bottom: writes files, runs commands and code, compares output."""

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
from itertools import zip_longest
from pathlib import Path

from blocks import RUN, SHOWN, Block, blocks, commands

ROOT = Path(__file__).parents[2]
SEPARATOR = "\x1e"
QUICK, SLOW = 200, 20 * 60
"""Timeout of a block in seconds."""


class PageFailed(AssertionError):
    pass


class PageRun:
    """Runs a page in a folder; without `slow`, blocks that take minutes are skipped."""

    def __init__(self, page: Path, folder: Path, environment: dict[str, str], *, slow: bool) -> None:
        self.page, self.folder, self.slow = page, folder, slow
        self.environment = environment
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.ran = 0

    def run(self) -> None:
        page_blocks = list(blocks(self.page.read_text("utf-8")))
        cwd = Path.cwd()
        os.chdir(self.folder)
        try:
            for block, following in zip_longest(page_blocks, page_blocks[1:]):
                self.run_block(block, following if following and following.kind == "output" else None)
        finally:
            os.chdir(cwd)

    def run_block(self, block: Block, output: Block | None) -> None:
        """Writes the file of a block, or runs it, or skips it."""
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
            self.run_commands(block)
        else:
            self.run_python(block, output)

    def run_commands(self, block: Block) -> None:
        """Runs all commands of a block in one shell, and compares the output of each."""
        block_commands = commands(block.text)
        script = "".join(
            f'{command.text}\nprintf "{SEPARATOR}%s{SEPARATOR}" "$?"\n' for command in block_commands
        )
        parts = self.shell(script).split(SEPARATOR)
        for number, command in enumerate(block_commands):
            if 2 * number + 1 >= len(parts):
                raise PageFailed(
                    f"{self.where(block)}: the shell ended before `{command.text}` did:\n{parts[-1]}"
                )
            printed, code = parts[2 * number], int(parts[2 * number + 1])
            if (code != 0) != block.fails:
                raise PageFailed(f"{self.where(block)}: `{command.text}` ended with {code}:\n{printed}")
            self.compare(block, command.text, command.expected, printed)

    def shell(self, script: str) -> str:
        """Runs a script and returns its output; its child processes are terminated."""
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

    def run_python(self, block: Block, output: Block | None) -> None:
        printed = io.StringIO()
        code = compile("\n" * block.line + block.text, str(self.page), "exec")
        try:
            with contextlib.redirect_stdout(printed), warnings_as_lines():
                exec(code, self.names)
        except Exception as error:
            raise PageFailed(f"{self.where(block)}:\n{traceback.format_exc()}") from error
        if output is not None:
            self.compare(block, "the code", output.text, printed.getvalue())

    def compare(self, block: Block, what: str, expected: str, printed: str) -> None:
        if block.trained and not self.slow:
            if bool(expected.strip()) and not printed.strip():
                raise PageFailed(f"{self.where(block)}: {what} printed nothing")
            return
        if not matches(expected, printed, varying=block.varying):
            raise PageFailed(f"{self.where(block)}: {what} printed\n{printed}\nwhere the page has\n{expected}")

    def where(self, block: Block) -> str:
        return f"{self.page.name}, line {block.line}"


def matches(expected: str, printed: str, *, varying: bool = False) -> bool:
    """Whether a page's output matches what was printed; `...` matches anything, trailing blanks are ignored.

    With `varying`, any number matches any other, and so does any run of blanks.
    """
    page_text = "\n".join(line.rstrip() for line in expected.strip("\n").splitlines())
    output = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
    pattern = re.escape(page_text).replace(re.escape("..."), ".*?")
    if varying:
        pattern = re.sub(r"(\\ )+", r"\\s+", re.sub(r"\d(\d|,|\\\.(?=\d))*", lambda _: r"\d[\d.,]*", pattern))
    return re.fullmatch(pattern, output, re.DOTALL) is not None


@contextlib.contextmanager
def warnings_as_lines():
    """Discards standard error: progress is not compared."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield


def environment(folder: Path, programs: Path) -> dict[str, str]:
    """Environment of a reader's shell: the commands on PATH, a fixed width, no colours."""
    path = f"{programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        **os.environ,
        "PATH": path,
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "MPLBACKEND": "agg",
        "REGARD_CACHE": str(folder),
    }


STAND_INS = re.compile(r"<!-- stand-ins: (.+?) -->")
"""Outputs of slow blocks, and the small runs that replace them: `runs/mine=picturebook`."""


def prepare(page: Path, folder: Path, made: Callable[[str], Path], pattern: re.Pattern[str]) -> None:
    """Copies the runs that a page names, and the files of an example, into the folder."""
    for names in pattern.findall(page.read_text("utf-8")):
        for item in names.split():
            target, _, name = item.partition("=")
            shutil.copytree(made(name or Path(target).name), folder / target, dirs_exist_ok=True)
    if page.is_relative_to(ROOT / "examples"):
        shutil.copytree(page.parent, folder, dirs_exist_ok=True)
