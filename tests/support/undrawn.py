"""Runs without their pictures: of a training that a test can wait for, drawing is the longer part."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from regard.tasks.diffusion import task as painting
from regard.tasks.encoder import training as texts
from regard.tasks.image_classification import task as vision
from regard.tasks.translation import task as translation

UNDRAWN = """
from regard.tasks.diffusion import task as painting
from regard.tasks.encoder import training as texts
from regard.tasks.translation import task as translation
from regard.tasks.image_classification import task as vision
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
