"""Image classification with a Vision Transformer."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.tasks.image_classification.config import ImageClassificationRecipe
from regard.tasks.spec import EvaluateOptions, ExportOptions, TaskSpec, evaluate_on_data

if TYPE_CHECKING:
    from regard.tasks.export import ExportCheck
    from regard.tasks.image_classification.model import ImageClassifier
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.reduction_benchmark import ReductionCase
    from regard.tasks.results import Result, TaskRun
    from regard.tasks.run_folder import RunFolder


class ImageClassificationSpec(TaskSpec[ImageClassificationRecipe, "ImageClassifier"]):
    """Image classification with a Vision Transformer."""

    name = "image-classification"
    recipe = ImageClassificationRecipe
    reads = "image"
    commands = ("classify",)

    def train(
        self, recipe: ImageClassificationRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TaskRun | None":
        from regard.tasks.image_classification.task import train

        return train(recipe, out, listener, resume=resume)

    def load(self, folder: "RunFolder", recipe: ImageClassificationRecipe) -> "ImageClassifier":
        from regard.tasks.image_classification.model import ImageClassifier

        return ImageClassifier(folder, recipe)

    def evaluate(self, loaded: "ImageClassifier", options: EvaluateOptions) -> "Result":
        return evaluate_on_data(loaded, options)

    def export(self, loaded: "ImageClassifier", options: ExportOptions) -> "ExportCheck":
        from regard.tasks.image_classification.export import export

        return export(loaded, options)

    def reduction_case(self, loaded: "ImageClassifier", data: Path | None, limit: int) -> "ReductionCase":
        from regard.tasks.image_classification.reduction import ImageReductionCase

        return ImageReductionCase(loaded, data, limit)
