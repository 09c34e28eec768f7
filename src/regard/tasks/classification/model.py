"""A model that labels texts, or pairs of texts, opened."""

from regard.errors import RegardError
from regard.tasks.classification.config import ClassificationRecipe
from regard.tasks.classification.task import (
    Classification,
    LabelPrediction,
    encode_texts,
    judged,
    probabilities,
)
from regard.tasks.encoder.model import Texts, TrainedEncoder, sides


class Classifier(TrainedEncoder):
    """A BERT or a GPT that labels texts, or pairs of texts."""

    does = "labels texts"
    recipe: ClassificationRecipe

    def work(self) -> Classification:
        return Classification(self.recipe)

    @property
    def pairs(self) -> bool | None:
        """Whether it labels pairs; of one that was imported nothing is known, so it takes both."""
        return self.recipe.data.pairs if self.recipe.data.train else None

    @property
    def reads_pairs(self) -> bool:
        return self.recipe.data.pairs

    def classify(self, texts: Texts) -> list[LabelPrediction]:
        """The label of each text or pair, with the share of every label."""
        first, second = sides(texts)
        for number, (text, other) in enumerate(zip(first, second, strict=True), start=1):
            if self.pairs not in (None, other is not None):
                wanted = "pairs of texts" if self.pairs else "single texts"
                raise RegardError(f"text {number}: {self.folder.path} was trained on {wanted}")
            if not text.strip() or (other is not None and not other.strip()):
                raise RegardError(f"text {number} is empty; there is nothing to label")
        if not first:
            return []
        examples, _ = encode_texts(self.tokenizer, first, second, self.max_length)
        shares = probabilities(self.model, examples)
        return [judged(self.labels, each) for each in shares]
