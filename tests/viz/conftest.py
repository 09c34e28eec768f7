"""Fixture that opens pages in a real browser, offline."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.chromium import OpenedPage


@pytest.fixture
def opened(browser, tmp_path: Path) -> Iterator[Callable[..., OpenedPage]]:
    """Opens HTML from a file, offline; fails at the end if any page reported an error."""
    pages: list[OpenedPage] = []

    def open_page(html: str, **context) -> OpenedPage:
        pages.append(OpenedPage(browser, html, tmp_path / f"{len(pages)}.html", **context))
        return pages[-1]

    yield open_page
    for page in pages:
        page.page.context.close()
        assert page.errors == []
