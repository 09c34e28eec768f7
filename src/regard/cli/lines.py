"""Lines of text in, results out, in constant memory: shared by the commands that read text."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.tokenization import Tokenizer, UnknownWord

LINES_PER_BATCH = 512
"""Lines that are read before the model runs on them."""


class Line(NamedTuple):
    """A line of input, and its file and number for error messages."""

    location: str
    text: str


class UnknownWordLog:
    """Reports on standard error the words of input texts that are not in the model's vocabulary.

    The first `maximum` texts with such words are reported one by one, the others by `summarize`.
    """

    def __init__(self, tokenizer: "Tokenizer", maximum: int = 5) -> None:
        self.tokenizer, self.maximum = tokenizer, maximum
        self.texts = self.affected = 0

    def check(self, text: str, location: str = "", unknown: "Sequence[UnknownWord] | None" = None) -> None:
        """Report the unknown words of a text, which are computed unless they are given."""
        from regard.tokenization import unknown_words, unknown_words_message
        from regard.viz.terminal import printable

        self.texts += 1
        if unknown is None:
            unknown = unknown_words(self.tokenizer, text)
        if not unknown:
            return
        self.affected += 1
        if self.affected <= self.maximum:
            message = unknown_words_message(self.tokenizer, text, unknown)
            print(f"regard: {location and f'{location}: '}{printable(message)}", file=sys.stderr)

    def check_lines(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.check(line.text, line.location)

    def summarize(self) -> None:
        """Report how many more texts have unknown words."""
        if self.affected > self.maximum:
            print(
                f"regard: {self.affected:,} of {self.texts:,} lines have words that are not in the model's "
                f"vocabulary; the first {self.maximum} are listed above",
                file=sys.stderr,
            )


def write_results(
    results_of: Callable[[list[Line]], Iterator[str]],
    files: list[Path],
    output: Path | None,
    tokenizer: "Tokenizer",
) -> None:
    """Apply `results_of` to batches of lines and write what it yields; reports unknown words."""
    unknown = UnknownWordLog(tokenizer)

    def texts() -> Iterator[str]:
        for batch in line_batches(files):
            unknown.check_lines(batch)
            yield from results_of(batch)

    write_texts(texts(), output)
    unknown.summarize()


def write_texts(texts: Iterator[str], output: Path | None) -> None:
    """Write each text as soon as it is computed."""
    from regard.engine.allocator import tuned_allocator

    with tuned_allocator(), open_output(output) as out:
        for text in texts:
            out.write(text)
            out.flush()


def open_output(output: Path | None) -> AbstractContextManager[TextIO]:
    """The file to write, or standard output, which stays open."""
    if output is None:
        return nullcontext(sys.stdout)
    return output.open("w", encoding="utf-8", newline="\n")


def line_batches(files: list[Path]) -> Iterator[list[Line]]:
    """Lines of files or standard input in batches; a terminal is read line by line."""
    interactive = not files and sys.stdin.isatty()
    lines = numbered(files, interactive)
    while batch := list(islice(lines, 1 if interactive else LINES_PER_BATCH)):
        yield batch


def numbered(files: list[Path], interactive: bool) -> Iterator[Line]:
    from regard.data.text_files import numbered_lines

    if not files:
        for number, text in enumerate(standard_input(interactive), start=1):
            yield Line(f"standard input, line {number}", text)
    for file in files:
        for number, text in numbered_lines(file):
            yield Line(f"{file}, line {number}", text)


def standard_input(interactive: bool) -> Iterator[str]:
    """Lines of standard input.

    Raises:
        RegardError: a line is not UTF-8.
    """
    if interactive:
        print("Type a sentence and press Enter; Ctrl-D ends.", file=sys.stderr)
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").rstrip()
        except UnicodeDecodeError:
            raise RegardError(f"standard input, line {number}: not UTF-8 text") from None


def checked_text(line: Line) -> str:
    """The text of a line, which must not be empty."""
    if not line.text.strip():
        raise RegardError(f"{line.location}: the text is empty")
    return line.text


def tab_separated_pair(line: Line, expected: str) -> tuple[str, str]:
    """The two texts of a line; `expected` names them in error messages."""
    parts = line.text.split("\t")
    if len(parts) != 2 or not all(part.strip() for part in parts):
        raise RegardError(f"{line.location}: expected {expected}, separated by a tab")
    return parts[0], parts[1]


def json_line(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"
