"""Blocks made of attention: residual paths, feed-forward networks, embeddings, encoder and decoder blocks."""

from regard.layers.blocks import BlockShape, DecoderBlock, EncoderBlock, SelfAttention
from regard.layers.dropout import Dropout
from regard.layers.embedding import ScaledEmbedding
from regard.layers.feedforward import FeedForward
from regard.layers.recurrent import LayerState, Recurrent
from regard.layers.residual import Residual

__all__ = [
    "BlockShape",
    "DecoderBlock",
    "Dropout",
    "EncoderBlock",
    "FeedForward",
    "LayerState",
    "Recurrent",
    "Residual",
    "ScaledEmbedding",
    "SelfAttention",
]
