"""Training runs without figures: in small runs, drawing takes longer than training."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from regard.tasks.diffusion import task as painting
from regard.tasks.encoder import training as texts
from regard.tasks.image_classification import task as vision
from regard.tasks.translation import task as translation

WITHOUT_FIGURES = """
from regard.tasks.diffusion import task as painting
from regard.tasks.encoder import training as texts
from regard.tasks.translation import task as translation
from regard.tasks.image_classification import task as vision
for job in (painting, texts, translation, vision):
    job.save_picture = lambda figure, stem: []
"""
"""Code that does the same in the process of a command."""


@contextmanager
def without_figures() -> Iterator[None]:
    """Training runs inside the context write no figures."""
    with pytest.MonkeyPatch.context() as patch:
        for job in (painting, texts, translation, vision):
            patch.setattr(job, "save_picture", lambda figure, stem: [])
        yield
