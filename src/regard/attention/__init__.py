"""The mechanism, on tensors only: every brick works by itself in a notebook.

>>> import torch
>>> from regard.attention import MultiHead, causal_mask
>>> attention = MultiHead(d_model=8, heads=2)
>>> x = torch.randn(1, 5, 8)
>>> attention(x, attention.remember(x), may_look=causal_mask(5)).shape
torch.Size([1, 5, 8])
"""

from regard.attention.apart import Apart, Ends, Noted
from regard.attention.attend import attend, masked_softmax
from regard.attention.cache import Cache, KeyValue
from regard.attention.heads import Attention, MultiHead
from regard.attention.masks import causal_mask, combine, length_mask, padding_mask
from regard.attention.positions import Alibi, Learned, Position, Relative, Rotary, Sinusoidal
from regard.attention.recorder import Recorder
from regard.attention.score import Additive, Concat, Dot, Gaussian, General, ScaledDot, Score

__all__ = [
    "Additive",
    "Alibi",
    "Apart",
    "Attention",
    "Cache",
    "Concat",
    "Dot",
    "Ends",
    "Gaussian",
    "General",
    "KeyValue",
    "Learned",
    "MultiHead",
    "Noted",
    "Position",
    "Recorder",
    "Relative",
    "Rotary",
    "ScaledDot",
    "Score",
    "Sinusoidal",
    "attend",
    "causal_mask",
    "combine",
    "length_mask",
    "masked_softmax",
    "padding_mask",
]
