"""docs/building/pictures.py recreates the pictures of the guide."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.page_run import ROOT, environment


@pytest.mark.parametrize(
    "name",
    [
        "head-view.png",
        pytest.param("alignment.png", marks=pytest.mark.slow),
        pytest.param("server.png", marks=pytest.mark.slow),
    ],
)
def test_screenshots_are_recreated(
    name: str, stand_in: Callable[[str], Path], tmp_path: Path, programs: Path, cache: Path
) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    from pictures import chromium

    if chromium() is None:
        pytest.skip("there is no Chromium on this machine")
    command = [sys.executable, ROOT / "docs" / "building" / "pictures.py", stand_in("picturebook")]
    done = subprocess.run(
        [*command, "--out", tmp_path, "--only", name],
        env=environment(cache, programs), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / name).stat().st_size > 10_000
