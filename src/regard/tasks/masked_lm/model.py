"""A BERT that was pre-trained on plain text, opened."""

from regard.config import PretrainingRecipe
from regard.tasks.encoder.model import TrainedEncoder
from regard.tasks.masked_lm.task import Pretraining


class MaskedLanguageModel(TrainedEncoder):
    """A BERT that predicts hidden words."""

    does = "predicts hidden words"
    recipe: PretrainingRecipe

    def work(self) -> Pretraining:
        return Pretraining(self.recipe)
