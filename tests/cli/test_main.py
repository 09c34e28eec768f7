"""The table of commands."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.console import Command

from regard.cli import main

SHARED = {"__init__", "main", "arguments", "lines", "mistakes", "terminal"}
HEAVY = (
    "torch",
    "matplotlib",
    "numpy",
    "rich",
    "fastapi",
    "uvicorn",
    "regard.config",
    "regard.data",
    "regard.tasks",
)


def test_every_command_has_a_module_of_its_name() -> None:
    modules = {path.stem for path in Path(main.__file__).parent.glob("*.py")}
    assert modules - SHARED == {"import_folder" if name == "import" else name for name in main.COMMANDS}


def test_importing_the_command_line_imports_nothing_heavy(tmp_path: Path) -> None:
    program = f"import sys, regard, regard.cli.main; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"


def test_help_groups_the_commands(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    code, text, _ = command("--help")
    assert code == 0
    positions = [text.index(f"─ {panel} ─") for panel in main.PANELS]
    assert positions == sorted(positions)
    assert text.index(" Measure ") < text.index("bench  ") < text.index(" Exchange ")


def all_commands(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, subcommand in getattr(tree, "commands", {}).items():
        yield from all_commands(subcommand, (*path, name))


@pytest.mark.parametrize("path", list(all_commands(main.command_tree())), ids=" ".join)
def test_every_command_has_help_with_an_example_and_plain_flags(
    command: Command, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, text, _ = command(*path, "-h")
    assert code == 0
    assert text == command(*path, "--help").out
    assert "<bool>" not in text
    assert "]...]..." not in text
    assert path == () or "Example" in text


def test_the_manual_page_has_every_command_in_order(command: Command) -> None:
    code, page, _ = command("man")
    assert code == 0
    assert page.startswith(".TH REGARD 1")
    sections = [line.split()[2] for line in page.splitlines() if line.startswith(".SS regard ")]
    assert list(dict.fromkeys(sections)) == list(main.COMMANDS)
