"""Attention, layers and models as plain PyTorch modules; every module can be used by itself in a notebook.

>>> import torch
>>> from regard.nn import MultiHead, causal_mask
>>> attention = MultiHead(d_model=8, heads=2)
>>> x = torch.randn(1, 5, 8)
>>> attention(x, attention.project_kv(x), mask=causal_mask(5)).shape
torch.Size([1, 5, 8])
"""

from regard.nn.attention import Attention, AttentionStats, MultiHead, attend, masked_softmax
from regard.nn.blocks import BlockShape, DecoderBlock, EncoderBlock, EncoderStack
from regard.nn.feed_forward import FeedForward
from regard.nn.kv_cache import KeyValue, KvCache, KvCacheStep
from regard.nn.masks import causal_mask, combine_masks, length_mask, padding_mask
from regard.nn.packing import Packed
from regard.nn.positions import Alibi, Learned, Position, Relative, Rotary, Sinusoidal
from regard.nn.recorder import Recorder
from regard.nn.recurrent import LayerState, Recurrent
from regard.nn.residual import Residual, SelfAttention
from regard.nn.scores import Additive, Concat, Cosine, Dot, Gaussian, General, ScaledDot, Score, make_score
from regard.nn.seq2seq import ScaledEmbedding
from regard.nn.token_reduction import (
    Merging,
    Pruning,
    ReducedTokens,
    Reducer,
    SoftPruned,
    TokenCounts,
    kept_share,
    matmul_flops,
    reduce_tokens,
)

__all__ = [
    "Additive",
    "Alibi",
    "Attention",
    "AttentionStats",
    "BlockShape",
    "Concat",
    "Cosine",
    "DecoderBlock",
    "Dot",
    "EncoderBlock",
    "EncoderStack",
    "FeedForward",
    "Gaussian",
    "General",
    "KeyValue",
    "KvCache",
    "KvCacheStep",
    "LayerState",
    "Learned",
    "Merging",
    "MultiHead",
    "Packed",
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
    "combine_masks",
    "kept_share",
    "length_mask",
    "make_score",
    "masked_softmax",
    "matmul_flops",
    "padding_mask",
    "reduce_tokens",
]
