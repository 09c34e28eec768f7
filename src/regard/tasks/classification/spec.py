"""Classification of texts and pairs of texts."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.tasks.classification.config import ClassificationRecipe
from regard.tasks.encoder.spec import EncoderTaskSpec

if TYPE_CHECKING:
    from regard.tasks.classification.model import Classifier
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.reduction_benchmark import ReductionCase
    from regard.tasks.results import TaskRun
    from regard.tasks.run_folder import RunFolder


class ClassificationSpec(EncoderTaskSpec[ClassificationRecipe, "Classifier"]):
    """Classification of texts and pairs of texts."""

    name = "classification"
    recipe = ClassificationRecipe
    head = "classes"
    has_labels = True
    commands = (
        "classify",
        "embed",
    )
    routes = ("/classify", "/embed")

    def train(
        self, recipe: ClassificationRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TaskRun | None":
        from regard.tasks.classification.task import train

        return train(recipe, out, listener, resume=resume)

    def load(self, folder: "RunFolder", recipe: ClassificationRecipe) -> "Classifier":
        from regard.tasks.classification.model import Classifier
        from regard.tasks.encoder.run_folder import TextRunFolder

        return Classifier(TextRunFolder(folder, recipe))

    def reduction_case(self, loaded: "Classifier", data: Path | None, limit: int) -> "ReductionCase":
        return loaded.reduction_case(data, limit)
