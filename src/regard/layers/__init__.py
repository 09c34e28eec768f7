"""Blocks made of attention: residual paths, feed-forward networks, embeddings, encoder and decoder blocks."""

from regard.layers.blocks import Blocks, BlockShape, DecoderBlock, EncoderBlock
from regard.layers.dropout import Dropout
from regard.layers.embedding import ScaledEmbedding
from regard.layers.feedforward import FeedForward
from regard.layers.merging import Merging
from regard.layers.pruning import Faded, Pruning
from regard.layers.recurrent import LayerState, Recurrent
from regard.layers.reduction import Left, Reducer, Walked, kept_share, operations, reduced
from regard.layers.residual import Residual
from regard.layers.self_attention import SelfAttention

__all__ = [
    "BlockShape",
    "Blocks",
    "DecoderBlock",
    "Dropout",
    "EncoderBlock",
    "Faded",
    "FeedForward",
    "LayerState",
    "Left",
    "Merging",
    "Pruning",
    "Recurrent",
    "Reducer",
    "Residual",
    "ScaledEmbedding",
    "SelfAttention",
    "Walked",
    "kept_share",
    "operations",
    "reduced",
]
