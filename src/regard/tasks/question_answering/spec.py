"""Answers to questions about paragraphs."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.config import AnsweringRecipe
from regard.tasks.encoder.spec import EncoderTaskSpec

if TYPE_CHECKING:
    from regard.tasks.encoder.training import TaskRun
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.question_answering.model import QuestionAnswerer
    from regard.tasks.run_folder import RunFolder


class QuestionAnsweringSpec(EncoderTaskSpec[AnsweringRecipe, "QuestionAnswerer"]):
    """Answers to questions about paragraphs."""

    name = "answering"
    recipe = AnsweringRecipe
    head = "span"
    commands = frozenset({"answer", "embed"})
    routes = ("/answer", "/embed")

    def train(
        self, recipe: AnsweringRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TaskRun | None":
        from regard.tasks.question_answering.task import train

        return train(recipe, out, listener, resume=resume)

    def load(self, folder: "RunFolder", recipe: AnsweringRecipe) -> "QuestionAnswerer":
        from regard.tasks.encoder.run_folder import TextFolder
        from regard.tasks.question_answering.model import QuestionAnswerer

        return QuestionAnswerer(TextFolder(folder, recipe))
