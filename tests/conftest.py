"""Settings of all tests: reproducible property tests, one compiled kernel library, a browser, quick commands."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from support.quick_command import write_commands

from regard import enable_reproducible_mkl

settings.register_profile("regard", deadline=None, derandomize=True)
settings.load_profile("regard")

enable_reproducible_mkl()  # before torch is imported: tests compare output across batch sizes
os.environ.setdefault("REGARD_NATIVE", str(Path(tempfile.gettempdir()) / f"regard-native-{os.getuid()}"))


@pytest.fixture(scope="module")
def browser():
    """One Chromium per test file; the driver must be closed after it, since it holds the thread's event loop."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed")
    with (
        api.sync_playwright() as driver,
        driver.chromium.launch(executable_path=program, args=["--no-sandbox"]) as chromium,
    ):
        yield chromium


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for PATH with quick `regard` and `torchrun` commands."""
    folder = tmp_path_factory.mktemp("bin")
    address = folder / "socket"
    command = [
        sys.executable,
        str(Path(__file__).parent / "support" / "quick_command.py"),
        "serve",
        str(address),
    ]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "MPLBACKEND": "agg"}
    )
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    write_commands(folder, address)
    yield folder
    server.terminate()
    server.wait()
