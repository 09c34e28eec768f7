"""Extractive question answering."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.tasks.encoder.spec import EncoderTaskSpec
from regard.tasks.question_answering.config import QuestionAnsweringRecipe

if TYPE_CHECKING:
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.question_answering.model import QuestionAnswerer
    from regard.tasks.results import TaskRun
    from regard.tasks.run_folder import RunFolder


class QuestionAnsweringSpec(EncoderTaskSpec[QuestionAnsweringRecipe, "QuestionAnswerer"]):
    """Extractive question answering."""

    name = "question-answering"
    recipe = QuestionAnsweringRecipe
    head = "span"
    commands = (
        "answer",
        "embed",
    )
    routes = ("/answer", "/embed")

    def train(
        self, recipe: QuestionAnsweringRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TaskRun | None":
        from regard.tasks.question_answering.task import train

        return train(recipe, out, listener, resume=resume)

    def load(self, folder: "RunFolder", recipe: QuestionAnsweringRecipe) -> "QuestionAnswerer":
        from regard.tasks.encoder.run_folder import TextRunFolder
        from regard.tasks.question_answering.model import QuestionAnswerer

        return QuestionAnswerer(TextRunFolder(folder, recipe))
