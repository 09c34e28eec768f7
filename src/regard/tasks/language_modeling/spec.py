"""Language models: GPT or n-gram."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.tasks.encoder.spec import TextTaskSpec
from regard.tasks.language_modeling.config import LanguageModelingRecipe
from regard.tasks.spec import EvaluateOptions, ExportOptions, refuse_merge

if TYPE_CHECKING:
    from regard.tasks.export import ExportCheck
    from regard.tasks.language_modeling.model import LanguageModel
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.results import Result, TaskRun
    from regard.tasks.run_folder import RunFolder


class LanguageModelingSpec(TextTaskSpec[LanguageModelingRecipe, "LanguageModel"]):
    """Language models: GPT or n-gram."""

    name = "language-modeling"
    recipe = LanguageModelingRecipe
    head = "language"
    commands = ("generate",)
    routes = ("/generate",)

    def train(
        self, recipe: LanguageModelingRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TaskRun | None":
        from regard.tasks.language_modeling.task import train

        return train(recipe, out, listener, resume=resume)

    def has_attention(self, recipe: LanguageModelingRecipe) -> bool:
        return recipe.model.kind != "ngram"

    def load(self, folder: "RunFolder", recipe: LanguageModelingRecipe) -> "LanguageModel":
        from regard.tasks.language_modeling.model import LanguageModel

        return LanguageModel(folder, recipe)

    def evaluate(self, loaded: "LanguageModel", options: EvaluateOptions) -> "Result":
        refuse_merge(options)
        return super().evaluate(loaded, options)

    def export(self, loaded: "LanguageModel", options: ExportOptions) -> "ExportCheck":
        from regard.tasks.language_modeling.export import export

        return export(loaded, options)
