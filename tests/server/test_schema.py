"""Schemathesis: responses to valid and invalid requests conform to /openapi.json."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.live_server import LiveServer, run_server

PROGRAM = "import sys; from schemathesis.cli import schemathesis; sys.argv[0] = 'schemathesis'; schemathesis()"
# A text can have too many tokens, which a schema cannot express: valid data may be refused.
OPTIONS = [
    "--exclude-checks",
    "positive_data_acceptance",
    "--seed",
    "1",
    "--generation-deterministic",
    "--suppress-health-check",
    "all",
    "--no-color",
]


def run_schemathesis(server: LiveServer, folder: Path, *options: str) -> str:
    """The output of schemathesis, which checks statuses, types and schemas of responses to valid and invalid data."""
    command = [sys.executable, "-c", PROGRAM, "run", f"{server.address}/openapi.json", *OPTIONS, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def test_translation_routes_conform(server: LiveServer, tmp_path: Path) -> None:
    run_schemathesis(server, tmp_path, "--max-examples", "6", "--phases", "examples,fuzzing")


@pytest.mark.slow
def test_translation_routes_conform_with_many_examples(server: LiveServer, tmp_path: Path) -> None:
    run_schemathesis(server, tmp_path, "--max-examples", "300")


def test_encoder_routes_conform(encoders: dict[str, Path], tmp_path: Path) -> None:
    with run_server(encoders) as server:
        run_schemathesis(server, tmp_path, "--max-examples", "6", "--phases", "examples,fuzzing")
