"""Property tests draw the same examples each time, the kernels are compiled once, and pages have a real browser."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("regard", deadline=None, derandomize=True)
settings.load_profile("regard")

os.environ.setdefault("REGARD_NATIVE", str(Path(tempfile.gettempdir()) / f"regard-native-{os.getuid()}"))


@pytest.fixture(scope="module")
def browser():
    """One Chromium for all tests of a file; its driver must not outlive them, for it holds the thread's event loop."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    with (
        api.sync_playwright() as driver,
        driver.chromium.launch(executable_path=program, args=["--no-sandbox"]) as found,
    ):
        yield found
