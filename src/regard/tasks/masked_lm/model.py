"""The loaded model of a pre-training run."""

from regard.tasks.encoder.model import TrainedEncoder
from regard.tasks.masked_lm.config import MaskedLmRecipe
from regard.tasks.masked_lm.task import MaskedLmTask


class MaskedLanguageModel(TrainedEncoder[MaskedLmTask]):
    """A BERT that predicts masked words."""

    does = "predicts masked words"
    recipe: MaskedLmRecipe

    def task(self) -> MaskedLmTask:
        return MaskedLmTask(self.recipe)
