"""Image classification with a Vision Transformer."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.tasks.image_classification.config import ImageClassificationRecipe
from regard.tasks.spec import EvaluateOptions, ExportOptions, TaskSpec, evaluate_on_data

if TYPE_CHECKING:
    from regard.tasks.encoder.training import TaskRun
    from regard.tasks.export_check import Check
    from regard.tasks.image_classification.model import ImageClassifier
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.reduction_subject import Subject
    from regard.tasks.results import Result
    from regard.tasks.run_folder import RunFolder


class ImageClassificationSpec(TaskSpec[ImageClassificationRecipe, "ImageClassifier"]):
    """Image classification with a Vision Transformer."""

    name = "image-classification"
    recipe = ImageClassificationRecipe
    reads = "image"
    commands = frozenset({"classify"})

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

    def export(self, loaded: "ImageClassifier", options: ExportOptions) -> "Check":
        from regard.tasks.image_classification.export import export

        return export(loaded, options)

    def reduction_subject(self, loaded: "ImageClassifier", data: Path | None, most: int) -> "Subject":
        from regard.tasks.image_classification.reduction_subject import ImageSubject

        return ImageSubject(loaded, data, most)
