"""A BERT that was pre-trained on plain text, opened."""

from regard.tasks.encoder.model import TrainedEncoder
from regard.tasks.masked_lm.config import MaskedLmRecipe
from regard.tasks.masked_lm.task import Pretraining


class MaskedLanguageModel(TrainedEncoder):
    """A BERT that predicts hidden words."""

    does = "predicts hidden words"
    recipe: MaskedLmRecipe

    def work(self) -> Pretraining:
        return Pretraining(self.recipe)
