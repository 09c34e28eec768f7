"""`regard man`: the help of all commands as data, and as a manual page."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from regard import __version__

EXAMPLE = "Example"
"""The first word of a help text's examples."""


def man() -> None:
    """Print the manual page in the format of man(1).

    Examples:

    regard man | man -l -

    regard man > ~/.local/share/man/man1/regard.1
    """
    from regard.cli.main import command_tree

    print(manual_page(list(entries(command_tree()))), end="")


@dataclass(frozen=True)
class Entry:
    """The help of one command."""

    name: str
    usage: str
    paragraphs: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]
    """Arguments and options, each with its help."""
    examples: tuple[str, ...]


def entries(command: Any, name: str = "regard") -> Iterator[Entry]:
    """A command and its subcommands, in the order of the help."""
    context = typer.Context(command, info_name=name)
    paragraphs, examples = paragraphs_and_examples(command.help or "", command.epilog or "")
    records = (parameter.get_help_record(context) for parameter in command.params)
    parameters = tuple((left, " ".join(right.split())) for left, right in filter(None, records))
    usage = " ".join(command.get_usage(context).split()).removeprefix("Usage: ")
    yield Entry(name, usage, paragraphs, parameters, examples)
    for subname, subcommand in getattr(command, "commands", {}).items():
        yield from entries(subcommand, f"{name} {subname}")


def paragraphs_and_examples(help_text: str, epilog: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The prose of a help text, and its example command lines."""
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
        "0 on success; 2 for a mistake of the user, such as an unknown key;",
        "1 for a failure of the machine, such as a full disk, or if a check failed.",
        ".SH ENVIRONMENT",
        *option("REGARD_CACHE", "Folder for downloads and token stores."),
        *option(
            "REGARD_NATIVE", "0: PyTorch only, no native engine; otherwise the folder it is compiled into."
        ),
        *option("REGARD_TARGET", "The native engine's target: x86-64, x86-64-v3 (AVX2), x86-64-v4 (AVX-512)."),
        *option("REGARD_TOKEN", "The access token that clients of `regard serve` must send."),
    ]
    return "\n".join(lines) + "\n"


def options(entry: Entry) -> list[str]:
    return [line for left, right in entry.parameters for line in option(left, right)]


def option(left: str, right: str) -> list[str]:
    return [".TP", f".B {roff(left)}", roff(right)]


def roff(text: str) -> str:
    """Text with the special characters of troff escaped."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
