"""`regard bench` as a user runs it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.app.cli import main

Bench = Callable[..., tuple[int, str]]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Bench:
    """The console script in this process, its exit code and what it told: nothing is measured here."""

    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["regard", "bench", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return call


def test_a_run_needs_sentences(bench: Bench) -> None:
    code, told = bench("nowhere")
    assert code == 2
    assert told == "regard: a run is measured on sentences: give RUN and --source, or neither\n"


def test_a_run_that_is_none(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("ein Satz\n", "utf-8")
    code, told = bench("nowhere", "--source", "lines.txt")
    assert code == 2
    assert "nowhere" in told
    assert "Traceback" not in told


@pytest.mark.slow
def test_everything_is_measured_and_saved(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "regard", "bench", "--quick", "--no-peers", "--json", "-o", "bench.json"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found == json.loads((tmp_path / "bench.json").read_text("utf-8"))
    assert found["peak"] > 1
    assert found["start_up"] < 3
    assert set(found["shares"]) == {"tiny", "small"}
    assert {row["case"] for row in found["decoding"]} == {
        f"decoding batch {batch}, beam {beam}" for batch in (1, 64) for beam in (1, 5)
    }
    assert all(row["ours"] > 0 for row in found["training"] + found["decoding"])
