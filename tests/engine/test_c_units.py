"""The unit tests in C."""

import subprocess
from pathlib import Path

from support.c_programs import compile_units


def test_units(tmp_path: Path) -> None:
    ran = subprocess.run([compile_units(tmp_path / "units")], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    checks, _, failures, _ = ran.stdout.splitlines()[-1].split()
    assert int(checks) > 10_000
    assert int(failures) == 0
