"""From a recipe's model section to a model."""

from torch import nn

from regard.config import TransformerModel
from regard.models.transformer import Transformer


def build(config: TransformerModel, source_vocabulary: int, target_vocabulary: int, padding: int) -> nn.Module:
    """A model with fresh weights."""
    match config:
        case TransformerModel():
            return Transformer(config, source_vocabulary, target_vocabulary, padding)
