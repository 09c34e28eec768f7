"""The commands as their own help tells them, and the manual page made of that: `regard man`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from regard import __version__

EXAMPLE = "Example"
"""How the part of a help text begins that shows the command in use."""


@dataclass(frozen=True)
class Entry:
    """One command: its name, how it is called, what it does, what it takes, and examples."""

    name: str
    usage: str
    paragraphs: tuple[str, ...]
    takes: tuple[tuple[str, str], ...]
    """Arguments and options, each with what its help says."""
    examples: tuple[str, ...]


def entries(command: Any, name: str = "regard") -> Iterator[Entry]:
    """A command and all commands under it, in the order of the help."""
    context = typer.Context(command, info_name=name)
    told, examples = parted(command.help or "", command.epilog or "")
    records = (each.get_help_record(context) for each in command.params)
    takes = tuple((left, " ".join(right.split())) for left, right in filter(None, records))
    usage = " ".join(command.get_usage(context).split()).removeprefix("Usage: ")
    yield Entry(name, usage, told, takes, examples)
    for under, each in getattr(command, "commands", {}).items():
        yield from entries(each, f"{name} {under}")


def parted(help_text: str, epilog: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a help text says, and the commands it shows."""
    paragraphs = [" ".join(each.split()) for each in (help_text + "\n\n" + epilog).split("\n\n")]
    told: list[str] = []
    examples: list[str] = []
    for paragraph in filter(None, paragraphs):
        if paragraph.startswith(EXAMPLE):
            examples += filter(None, [paragraph.partition(":")[2].strip()])
        elif paragraph.startswith(("regard ", "echo ")):
            examples.append(paragraph)
        else:
            told.append(paragraph)
    return tuple(told), tuple(examples)


def manual_page(found: list[Entry]) -> str:
    """All of it in the language of man(1)."""
    first, *rest = found
    lines = [
        f'.TH REGARD 1 "" "regard {__version__}" "User Commands"',
        ".SH NAME",
        f"regard \\- {roff(first.paragraphs[0])}",
        ".SH SYNOPSIS",
        roff(first.usage),
        ".SH OPTIONS",
        *options(first),
        ".SH COMMANDS",
    ]
    for each in rest:
        lines += [f".SS {roff(each.usage)}"]
        lines += [line for paragraph in each.paragraphs for line in (".PP", roff(paragraph))]
        lines += options(each)
        lines += [line for shown in each.examples for line in (".PP", ".RS", ".nf", roff(shown), ".fi", ".RE")]
    lines += [
        ".SH EXIT STATUS",
        "0 when all went well; 2 for a mistake of the user, told in one sentence;",
        "1 when the machine would not, such as a full disk, or when a check failed.",
        ".SH ENVIRONMENT",
        *option("REGARD_CACHE", "Where downloads and token stores are kept."),
        *option("REGARD_NATIVE", "0: PyTorch alone, no native engine; a folder: where it is compiled to."),
        *option("REGARD_TARGET", "The native engine's target: x86-64, x86-64-v3 (AVX2), x86-64-v4 (AVX-512)."),
        *option("REGARD_TOKEN", "The token that clients of `regard serve` must send."),
    ]
    return "\n".join(lines) + "\n"


def options(entry: Entry) -> list[str]:
    return [line for left, right in entry.takes for line in option(left, right)]


def option(left: str, right: str) -> list[str]:
    return [".TP", f".B {roff(left)}", roff(right)]


def roff(text: str) -> str:
    """Text that troff prints as it stands."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
