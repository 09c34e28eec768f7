"""Pre-training of a BERT on plain text."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.config import PretrainingRecipe
from regard.tasks.encoder.spec import EncoderTaskSpec

if TYPE_CHECKING:
    from regard.tasks.encoder.training import TaskRun
    from regard.tasks.masked_lm.model import MaskedLanguageModel
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.run_folder import RunFolder


class MaskedLanguageModelingSpec(EncoderTaskSpec[PretrainingRecipe, "MaskedLanguageModel"]):
    """Pre-training of a BERT on plain text."""

    name = "pretraining"
    recipe = PretrainingRecipe
    head = "pretraining"

    def train(
        self, recipe: PretrainingRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TaskRun | None":
        from regard.tasks.masked_lm.task import train

        return train(recipe, out, listener, resume=resume)

    def load(self, folder: "RunFolder", recipe: PretrainingRecipe) -> "MaskedLanguageModel":
        from regard.tasks.encoder.run_folder import TextFolder
        from regard.tasks.masked_lm.model import MaskedLanguageModel

        return MaskedLanguageModel(TextFolder(folder, recipe))
