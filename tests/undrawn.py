"""Runs without their pictures: of a training that a test can wait for, drawing is the longer part."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from regard.jobs import painting, texts, translation, vision


@contextmanager
def undrawn() -> Iterator[None]:
    """Trainings meanwhile write no pictures."""
    with pytest.MonkeyPatch.context() as patch:
        for job in (painting, texts, translation, vision):
            patch.setattr(job, "save_picture", lambda figure, stem: [])
        yield
