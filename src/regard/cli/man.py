"""`regard man`: the help of all commands as data, and as a manual page made of that."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from regard import __version__

EXAMPLE = "Example"
"""How the part of a help text begins that shows the command in use."""


def man() -> None:
    """Print the manual page of all commands, for man(1).

    Examples:

    regard man | man -l -

    regard man > ~/.local/share/man/man1/regard.1
    """
    from regard.cli.main import cli

    print(manual_page(list(entries(typer.main.get_command(cli)))), end="")


@dataclass(frozen=True)
class Entry:
    """One command: its name, how it is called, what it does, what it takes, and examples."""

    name: str
    usage: str
    paragraphs: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]
    """Arguments and options, each with its help."""
    examples: tuple[str, ...]


def entries(command: Any, name: str = "regard") -> Iterator[Entry]:
    """A command and all commands under it, in the order of the help."""
    context = typer.Context(command, info_name=name)
    paragraphs, examples = paragraphs_and_examples(command.help or "", command.epilog or "")
    records = (parameter.get_help_record(context) for parameter in command.params)
    parameters = tuple((left, " ".join(right.split())) for left, right in filter(None, records))
    usage = " ".join(command.get_usage(context).split()).removeprefix("Usage: ")
    yield Entry(name, usage, paragraphs, parameters, examples)
    for subname, subcommand in getattr(command, "commands", {}).items():
        yield from entries(subcommand, f"{name} {subname}")


def paragraphs_and_examples(help_text: str, epilog: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The prose of a help text, and the command lines it shows."""
    blocks = [" ".join(block.split()) for block in (help_text + "\n\n" + epilog).split("\n\n")]
    paragraphs: list[str] = []
    examples: list[str] = []
    for block in filter(None, blocks):
        if block.startswith(EXAMPLE):
            examples += filter(None, [block.partition(":")[2].strip()])
        elif block.startswith(("regard ", "echo ")):
            examples.append(block)
        else:
            paragraphs.append(block)
    return tuple(paragraphs), tuple(examples)


def manual_page(commands: list[Entry]) -> str:
    """The page in roff, the format of man(1)."""
    first, *rest = commands
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
    for entry in rest:
        lines += [f".SS {roff(entry.usage)}"]
        lines += [line for paragraph in entry.paragraphs for line in (".PP", roff(paragraph))]
        lines += options(entry)
        lines += [
            line for example in entry.examples for line in (".PP", ".RS", ".nf", roff(example), ".fi", ".RE")
        ]
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
    return [line for left, right in entry.parameters for line in option(left, right)]


def option(left: str, right: str) -> list[str]:
    return [".TP", f".B {roff(left)}", roff(right)]


def roff(text: str) -> str:
    """Text that troff prints as it stands."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
