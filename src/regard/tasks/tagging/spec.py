"""Tagging: a label for each word."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.tasks.encoder.spec import EncoderTaskSpec
from regard.tasks.tagging.config import TaggingRecipe

if TYPE_CHECKING:
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.reduction_benchmark import ReductionCase
    from regard.tasks.results import TaskRun
    from regard.tasks.run_folder import RunFolder
    from regard.tasks.tagging.model import Tagger


class TaggingSpec(EncoderTaskSpec[TaggingRecipe, "Tagger"]):
    """Tagging: a label for each word."""

    name = "tagging"
    recipe = TaggingRecipe
    head = "tags"
    has_labels = True
    commands = (
        "tag",
        "embed",
    )
    routes = ("/tag", "/embed")

    def train(
        self, recipe: TaggingRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TaskRun | None":
        from regard.tasks.tagging.task import train

        return train(recipe, out, listener, resume=resume)

    def load(self, folder: "RunFolder", recipe: TaggingRecipe) -> "Tagger":
        from regard.tasks.encoder.run_folder import TextRunFolder
        from regard.tasks.tagging.model import Tagger

        return Tagger(TextRunFolder(folder, recipe))

    def reduction_case(self, loaded: "Tagger", data: Path | None, limit: int) -> "ReductionCase":
        return loaded.reduction_case(data, limit)
