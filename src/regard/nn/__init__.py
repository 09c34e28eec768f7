"""Attention, layers and models as plain PyTorch modules: every brick works by itself in a notebook.

>>> import torch
>>> from regard.nn import MultiHead, causal_mask
>>> attention = MultiHead(d_model=8, heads=2)
>>> x = torch.randn(1, 5, 8)
>>> attention(x, attention.project_kv(x), mask=causal_mask(5)).shape
torch.Size([1, 5, 8])
"""

from regard.nn.apart import Apart, AttentionStats, Ends
from regard.nn.attention import Attention, MultiHead, attend, masked_softmax
from regard.nn.blocks import BlockShape, DecoderBlock, EncoderBlock, EncoderStack
from regard.nn.dropout import Dropout
from regard.nn.embeddings import ScaledEmbedding
from regard.nn.feed_forward import FeedForward
from regard.nn.kv_cache import KeyValue, KvCache
from regard.nn.masks import causal_mask, combine, length_mask, padding_mask
from regard.nn.positions import Alibi, Learned, Position, Relative, Rotary, Sinusoidal
from regard.nn.recorder import Recorder
from regard.nn.recurrent import LayerState, Recurrent
from regard.nn.residual import Residual, SelfAttention
from regard.nn.scores import Additive, Concat, Dot, Gaussian, General, ScaledDot, Score
from regard.nn.token_reduction import (
    Merging,
    Pruning,
    ReducedTokens,
    Reducer,
    SoftPruned,
    TokenCounts,
    kept_share,
    operations,
    reduced,
)

__all__ = [
    "Additive",
    "Alibi",
    "Apart",
    "Attention",
    "AttentionStats",
    "BlockShape",
    "Concat",
    "DecoderBlock",
    "Dot",
    "Dropout",
    "EncoderBlock",
    "EncoderStack",
    "Ends",
    "FeedForward",
    "Gaussian",
    "General",
    "KeyValue",
    "KvCache",
    "LayerState",
    "Learned",
    "Merging",
    "MultiHead",
    "Position",
    "Pruning",
    "Recorder",
    "Recurrent",
    "ReducedTokens",
    "Reducer",
    "Relative",
    "Residual",
    "Rotary",
    "ScaledDot",
    "ScaledEmbedding",
    "Score",
    "SelfAttention",
    "Sinusoidal",
    "SoftPruned",
    "TokenCounts",
    "attend",
    "causal_mask",
    "combine",
    "kept_share",
    "length_mask",
    "masked_softmax",
    "operations",
    "padding_mask",
    "reduced",
]
