"""BERT pre-training on plain text."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.tasks.encoder.spec import EncoderTaskSpec
from regard.tasks.masked_lm.config import MaskedLmRecipe

if TYPE_CHECKING:
    from regard.tasks.masked_lm.model import MaskedLanguageModel
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.results import TaskRun
    from regard.tasks.run_folder import RunFolder


class MaskedLanguageModelingSpec(EncoderTaskSpec[MaskedLmRecipe, "MaskedLanguageModel"]):
    """BERT pre-training on plain text."""

    name = "masked-lm"
    recipe = MaskedLmRecipe
    head = "pretraining"

    def train(
        self, recipe: MaskedLmRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TaskRun | None":
        from regard.tasks.masked_lm.task import train

        return train(recipe, out, listener, resume=resume)

    def load(self, folder: "RunFolder", recipe: MaskedLmRecipe) -> "MaskedLanguageModel":
        from regard.tasks.encoder.run_folder import TextRunFolder
        from regard.tasks.masked_lm.model import MaskedLanguageModel

        return MaskedLanguageModel(TextRunFolder(folder, recipe))
