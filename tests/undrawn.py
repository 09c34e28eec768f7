"""Runs without their pictures: of a training that a test can wait for, drawing is the longer part."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from regard.jobs import painting, texts, translation, vision

UNDRAWN = """
from regard.jobs import painting, texts, translation, vision
for job in (painting, texts, translation, vision):
    job.save_picture = lambda figure, stem: []
"""
"""The same for a command of its own process, as what it runs first."""


@contextmanager
def undrawn() -> Iterator[None]:
    """Trainings meanwhile write no pictures."""
    with pytest.MonkeyPatch.context() as patch:
        for job in (painting, texts, translation, vision):
            patch.setattr(job, "save_picture", lambda figure, stem: [])
        yield
