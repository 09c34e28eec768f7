"""`regard bench` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def bench(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "regard", "bench", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_needs_sentences(tmp_path: Path) -> None:
    ended = bench("nowhere", folder=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr == "regard: a run is measured on sentences: give RUN and --source, or neither\n"


def test_a_run_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("ein Satz\n", "utf-8")
    ended = bench("nowhere", "--source", "lines.txt", folder=tmp_path)
    assert ended.returncode == 2
    assert "nowhere" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_everything_is_measured_and_saved(tmp_path: Path) -> None:
    ended = bench("--quick", "--no-peers", "--json", "-o", "bench.json", folder=tmp_path)
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
