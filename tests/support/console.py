"""The `regard` command in the process of the test."""

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from regard.cli.main import main


class Ended(NamedTuple):
    """Exit code, standard output and standard error of a command."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


def run_command(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Ended:
    """Runs `regard ARGUMENTS` in this process, which saves the imports of a new one."""
    monkeypatch.setattr(sys, "argv", ["regard", *arguments])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    return Ended(int(ended.value.code or 0), printed.out, printed.err)
