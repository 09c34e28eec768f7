"""Tests of the engine need the compiled library; `plain` switches it off for a reference."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from regard.engine import find_library
from regard.engine.library import kernels

PLAN = sys.modules["regard.engine.plan"]


@pytest.fixture(autouse=True)
def needs_library(request: pytest.FixtureRequest) -> None:
    if kernels() is None and request.node.get_closest_marker("without_library") is None:
        pytest.skip(find_library()[1])


@contextmanager
def switched_off() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PLAN, "process_refusal", lambda: "switched off for a reference")
        yield


@pytest.fixture
def plain() -> Callable[[], AbstractContextManager[None]]:
    """A context in which the plan refuses everything, so that plain PyTorch runs."""
    return switched_off
