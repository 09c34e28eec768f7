"""Whatever is sent to the routes that /openapi.json tells of, the answer is one that it tells of too."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.live_server import LiveServer, run_server

PROGRAM = "import sys; from schemathesis.cli import schemathesis; sys.argv[0] = 'schemathesis'; schemathesis()"
# A text can have too many tokens to look into, which a schema cannot say: good data may be refused.
STEADY = [
    "--exclude-checks",
    "positive_data_acceptance",
    "--seed",
    "1",
    "--generation-deterministic",
    "--suppress-health-check",
    "all",
    "--no-color",
]


def tried(server: LiveServer, folder: Path, *options: str) -> str:
    """What schemathesis says about a server; it checks statuses, types and schemas of answers to good and bad data."""
    command = [sys.executable, "-c", PROGRAM, "run", f"{server.address}/openapi.json", *STEADY, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def test_what_is_answered_was_told(server: LiveServer, tmp_path: Path) -> None:
    tried(server, tmp_path, "--max-examples", "6", "--phases", "examples,fuzzing")


@pytest.mark.slow
def test_what_is_answered_was_told_at_length(server: LiveServer, tmp_path: Path) -> None:
    tried(server, tmp_path, "--max-examples", "300")


def test_what_models_that_read_answer_was_told(readers: dict[str, Path], tmp_path: Path) -> None:
    with run_server(readers) as server:
        tried(server, tmp_path, "--max-examples", "6", "--phases", "examples,fuzzing")
