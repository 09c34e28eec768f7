"""`regard show` as a user runs it: pictures, tables, JSON, and errors."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from regard.cli.show import app
from regard.errors import RegardError

FAST = {
    "scaling": ["--largest", "16", "--draws", "64"],
    "positions": ["--length", "16", "--d-model", "8"],
    "cost": ["--longest", "512", "--d-model", "8", "--seconds", "1", "--quick"],
    "bottleneck": ["--longest", "3", "--size", "8", "--steps", "3", "--lines", "4"],
    "smoothing": [],
    "schedule": ["--steps", "5000"],
}


def show(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("lesson", FAST)
def test_a_lesson_writes_pictures_and_prints_tables(lesson: str, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    result = show(lesson, *FAST[lesson], "--out", str(out))
    assert result.exit_code == 0, result.output
    assert (out / f"{lesson}.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    svg = (out / f"{lesson}.svg").read_text()
    assert svg.startswith("<?xml")
    assert "<svg" in svg
    assert sorted(path.name for path in out.iterdir()) == [f"{lesson}.png", f"{lesson}.svg"]
    assert f"{lesson}.png" in result.stderr
    assert f"{lesson}.png" not in result.stdout
    assert result.stdout.rstrip().endswith(".")  # the conclusion


@pytest.mark.parametrize("lesson", FAST)
def test_stdout_has_only_the_json(lesson: str, tmp_path: Path) -> None:
    result = show(lesson, *FAST[lesson], "--out", str(tmp_path), "--json")
    numbers = json.loads(result.stdout)
    assert numbers["lesson"] == lesson
    assert [Path(path).exists() for path in numbers["pictures"]] == [True, True]
    assert len(numbers) > 3


def test_schedule_prints_the_numbers_of_the_report(tmp_path: Path) -> None:
    text = show("schedule", "--out", str(tmp_path)).stdout
    assert "8.1e-04" in text
    assert "5.4e-07" in text


def test_pictures_are_reproducible(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        show("schedule", "--out", str(tmp_path / folder))
    first, second = ((tmp_path / folder / "schedule.svg").read_bytes() for folder in ("one", "two"))
    assert first == second


@pytest.mark.parametrize(
    "arguments",
    [
        ["scaling", "--keys", "1"],
        ["scaling", "--largest", "0"],
        ["positions", "--length", "1"],
        ["cost", "--longest", "100"],
        ["smoothing", "--smoothing", "1.5"],
        ["schedule", "--warmup", "0"],
        ["schedule", "--steps", "many"],
        ["colours"],
    ],
    ids=" ".join,
)
def test_values_out_of_range_end_with_code_2(arguments: list[str]) -> None:
    result = show(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def error_message(*arguments: str) -> str:
    error = show(*arguments).exception
    assert isinstance(error, RegardError)
    return str(error)


def test_a_file_as_out_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    assert error_message("schedule", "--out", str(file)).endswith("is a file; give a folder for the pictures")
    assert "cannot be written to" in error_message("schedule", "--out", str(file / "below"))
    assert file.read_text() == "mine"


def test_an_unwritable_picture_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "schedule.png").mkdir()
    assert "cannot be written" in error_message("schedule", "--out", str(tmp_path))


def test_odd_sizes_and_late_warmups_are_refused() -> None:
    assert "must be even" in error_message("positions", "--d-model", "7")
    assert "before the last step" in error_message("schedule", "--warmup", "500", "--steps", "400")


@pytest.mark.parametrize("lesson", FAST)
def test_help_has_an_example(lesson: str) -> None:
    assert f"regard show {lesson}" in show(lesson, "--help").stdout
