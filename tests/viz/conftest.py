"""Pages opened in a real browser, without a network."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.chromium import Opened


@pytest.fixture
def opened(browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens HTML from a file, offline; at the end nothing may have gone wrong in any page."""
    pages: list[Opened] = []

    def call(html: str, **context) -> Opened:
        pages.append(Opened(browser, html, tmp_path / f"{len(pages)}.html", **context))
        return pages[-1]

    yield call
    for each in pages:
        each.page.context.close()
        assert each.complaints == []
