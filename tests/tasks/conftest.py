"""A corpus and a cache for the tests of whole runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_translation import write_corpus
from support.without_figures import without_figures


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def only_shared_runs_are_drawn() -> Iterator[None]:
    """A module's own runs are made before this, and their pictures looked for; those of single tests are not."""
    with without_figures():
        yield
