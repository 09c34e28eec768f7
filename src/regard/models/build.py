"""From a recipe's model section to a model."""

from regard.config import RnnModel, TransformerModel
from regard.models.pairs import PairModel
from regard.models.rnn import Rnn
from regard.models.transformer import Transformer


def build(
    config: TransformerModel | RnnModel, source_vocabulary: int, target_vocabulary: int, padding: int
) -> PairModel:
    """A model with fresh weights."""
    match config:
        case TransformerModel():
            return Transformer(config, source_vocabulary, target_vocabulary, padding)
        case RnnModel():
            return Rnn(config, source_vocabulary, target_vocabulary, padding)
