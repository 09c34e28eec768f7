"""A model that tags words, opened."""

from collections.abc import Sequence

from regard.tasks.encoder.model import TrainedEncoder
from regard.tasks.tagging.config import TaggingRecipe
from regard.tasks.tagging.task import TaggedSentence, Tagging, encode_words, tagged, word_shares
from regard.tokenization import split_words


class Tagger(TrainedEncoder):
    """A BERT that tags words."""

    does = "tags words"
    recipe: TaggingRecipe

    def work(self) -> Tagging:
        return Tagging(self.recipe)

    def tag(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[TaggedSentence]:
        """A tag for each word; a text that is not words yet is split into them by rule."""
        words = [split_words(each) if isinstance(each, str) else list(each) for each in sentences]
        if not words:
            return []
        stretches = encode_words(self.tokenizer, words, self.max_length)
        shares = word_shares(self.model, stretches, [len(each) for each in words])
        return [tagged(each, self.labels, rows) for each, rows in zip(words, shares, strict=True)]
