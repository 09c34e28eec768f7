"""The fenced blocks of a page: what is run, what is a file, what is shown, and what is not run and why.

The first word after the fence is the kind, the rest are settings: `console slow`, `toml file="mine.toml"`,
`console not-run="needs two machines"`. Tests, notebooks and the site all read pages by this.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<mark>`{3,})(?P<info>[^`\n]*)\n(?P<text>.*?)^(?P=mark)[ ]*$", re.MULTILINE | re.DOTALL)

RUN = {"console", "python"}
"""Kinds whose text is run."""
SHOWN = {"source", "generated", "output"}
"""Kinds that the site fills in, or that say what a block before them prints."""


@dataclass(frozen=True)
class Block:
    """One fence: where it stands, what it is, what it holds."""

    line: int
    kind: str
    settings: dict[str, str]
    text: str

    @property
    def file(self) -> str | None:
        """The file that the text is written to, where it is one."""
        return self.settings.get("file")

    @property
    def why_not(self) -> str | None:
        """Why the tests do not run it."""
        return self.settings.get("not-run")

    @property
    def slow(self) -> bool:
        """It takes minutes: `make test-slow` runs it."""
        return "slow" in self.settings

    @property
    def trained(self) -> bool:
        """What it prints depends on a run that takes minutes; compared where that run was made."""
        return "trained" in self.settings

    @property
    def varying(self) -> bool:
        """Its numbers are of one machine and one run; another's may differ, its words may not."""
        return "varying" in self.settings

    @property
    def fails(self) -> bool:
        """It shows a mistake and what is said to it."""
        return "fails" in self.settings


def blocks(markdown: str) -> Iterator[Block]:
    """All fences of a page, from its top."""
    for found in FENCE.finditer(markdown):
        kind, settings = read_info(found["info"])
        yield Block(markdown.count("\n", 0, found.start()) + 1, kind, settings, found["text"])


def read_info(info: str) -> tuple[str, dict[str, str]]:
    """`toml file="mine.toml" slow` -> toml, {"file": "mine.toml", "slow": ""}."""
    kind, *words = shlex.split(info) or [""]
    return kind, {name: value for name, _, value in (word.partition("=") for word in words)}


@dataclass(frozen=True)
class Command:
    """A line after `$`, with the lines it goes on over (after `>`, or a backslash), and what it prints."""

    text: str
    expected: str


def commands(text: str) -> list[Command]:
    """The commands of a console block, each with the lines that stand under it."""
    found: list[tuple[list[str], list[str]]] = []
    going_on = False
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1][0].append(line[2:])
        elif not found:
            raise ValueError(f"a console block begins with a command after `$`, not with {line!r}")
        else:
            found[-1][0 if going_on else 1].append(line)
        going_on = found[-1][0][-1].endswith("\\") and not found[-1][1]
    return [Command("\n".join(typed), "\n".join(printed)) for typed, printed in found]


def pages(root: Path) -> list[Path]:
    """Everything a reader is given: the README, the site, the examples."""
    return [
        root / "README.md",
        *sorted(path for path in (root / "docs").rglob("*.md") if "building" not in path.parts),
        *sorted((root / "examples").rglob("*.md")),
    ]
