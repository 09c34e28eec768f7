"""Parser for the fenced blocks of a page.

The first word after the fence is the kind, the rest are attributes: `console slow`, `toml file="mine.toml"`,
`console not-run="needs two machines"`. Used by the tests, the notebooks and the site.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<mark>`{3,})(?P<info>[^`\n]*)\n(?P<text>.*?)^(?P=mark)[ ]*$", re.MULTILINE | re.DOTALL)

RUN = {"console", "python"}
"""Kinds that are executed."""
SHOWN = {"source", "generated", "output"}
"""Kinds that the site generates, or that hold the expected output of the block before."""


@dataclass(frozen=True)
class Block:
    """One fence: its line, kind, attributes and text."""

    line: int
    kind: str
    settings: dict[str, str]
    text: str

    @property
    def file(self) -> str | None:
        """Name of the file that the text is written to."""
        return self.settings.get("file")

    @property
    def why_not(self) -> str | None:
        """Reason why the tests do not run it."""
        return self.settings.get("not-run")

    @property
    def slow(self) -> bool:
        """Takes minutes; run by `make test-slow`."""
        return "slow" in self.settings

    @property
    def trained(self) -> bool:
        """Output depends on a run that takes minutes; compared by `make test-slow` only."""
        return "trained" in self.settings

    @property
    def varying(self) -> bool:
        """Numbers in the output vary with the machine; the words do not."""
        return "varying" in self.settings

    @property
    def example(self) -> bool:
        """The output shown is one example; any other output is accepted."""
        return "example" in self.settings

    @property
    def fails(self) -> bool:
        """Shows a mistake: the exit code is not 0."""
        return "fails" in self.settings


def blocks(markdown: str) -> Iterator[Block]:
    """All fences of a page, from top to bottom."""
    for fence in FENCE.finditer(markdown):
        kind, settings = read_info(fence["info"])
        yield Block(markdown.count("\n", 0, fence.start()) + 1, kind, settings, fence["text"])


def read_info(info: str) -> tuple[str, dict[str, str]]:
    """`toml file="mine.toml" slow` -> toml, {"file": "mine.toml", "slow": ""}."""
    kind, *words = shlex.split(info) or [""]
    return kind, {name: value for name, _, value in (word.partition("=") for word in words)}


@dataclass(frozen=True)
class Command:
    """A command after `$`, with its continuation lines (after `>` or a backslash), and its expected output."""

    text: str
    expected: str


def commands(text: str) -> list[Command]:
    """The commands of a console block, each with the output lines below it."""
    parsed: list[tuple[list[str], list[str]]] = []  # lines typed, lines printed
    continued = False
    for line in text.splitlines():
        if line.startswith("$ "):
            parsed.append(([line[2:]], []))
        elif line.startswith("> ") and parsed and not parsed[-1][1]:
            parsed[-1][0].append(line[2:])
        elif not parsed:
            raise ValueError(f"a console block begins with a command after `$`, not with {line!r}")
        else:
            parsed[-1][0 if continued else 1].append(line)
        continued = parsed[-1][0][-1].endswith("\\") and not parsed[-1][1]
    return [Command("\n".join(typed), "\n".join(printed)) for typed, printed in parsed]


def pages(root: Path) -> list[Path]:
    """The README, the pages of the site and the examples."""
    return [
        root / "README.md",
        *sorted(path for path in (root / "docs").rglob("*.md") if "building" not in path.parts),
        *sorted((root / "examples").rglob("*.md")),
    ]
