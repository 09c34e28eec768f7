"""The kernels' dropout masks in plain PyTorch, so that a model run as modules drops the same elements."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from regard.engine.plan import dropout_threshold
from regard.engine.stack import draw_seed
from regard.nn import ScaledDot

ATTEND = sys.modules["regard.nn.attention"]  # the package has a function of that name


def dropout_bytes(numbers: Tensor, seed: int) -> Tensor:
    """Random bytes of a seed at the positions `numbers`."""

    def mix(h: Tensor) -> Tensor:
        h = h ^ (h >> 16)
        h = (h * 0x21F0AAAD) & 0xFFFFFFFF
        h = h ^ (h >> 15)
        h = (h * 0x735A2D97) & 0xFFFFFFFF
        return h ^ (h >> 15)

    low, high = seed & 0xFFFFFFFF, seed >> 32
    block = numbers // 32
    word = ((block * 8) & 0xFFFFFFFF) + (numbers % 32) // 4
    word = mix(mix((word + low) & 0xFFFFFFFF) ^ high ^ (block >> 29))
    return (word >> (8 * (numbers % 4))) & 0xFF


def kept(numbers: Tensor, threshold: int, seed: int) -> Tensor:
    """0 for dropped elements, the scale for the others."""
    return (dropout_bytes(numbers, seed) >= threshold).float() * (256 / (256 - threshold))


def row_mask(rows: int, columns: int, threshold: int, seed: int) -> Tensor:
    """A mask (rows, columns); every row starts a new block of random bytes."""
    width = math.ceil(columns / 32) * 32
    numbers = torch.arange(rows).unsqueeze(1) * width + torch.arange(columns)
    return kept(numbers, threshold, seed)


def weight_mask(tokens: Tensor, heads: int, keys: int, threshold: int, seed: int) -> Tensor:
    """A mask (rows, heads, keys) for the attention weights of the queries at packed `tokens` (rows,)."""
    block = (tokens.view(-1, 1, 1) * heads + torch.arange(heads).view(1, -1, 1)) << 12
    key = torch.arange(keys)
    return kept((block + key // 32) * 32 + key % 32, threshold, seed)


@contextmanager
def kernel_dropout(model: nn.Module, *nonpad: Tensor) -> Iterator[None]:
    """Patches modules to drop what the kernels drop; `nonpad` (batch, length) marks the tokens of each side.

    The sides must differ in length. Seeds are drawn from PyTorch's generator in the order of the layers.
    """
    sides = {tuple(mask.shape): mask for mask in nonpad}
    assert len(sides) == len(nonpad)

    def dropout(self: nn.Dropout, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        threshold = dropout_threshold(self.p)
        tokens = sides[tuple(x.shape[:2])]
        packed = row_mask(int(tokens.sum()), x.size(-1), threshold, draw_seed(threshold))
        mask = torch.ones(x.shape, dtype=x.dtype)
        mask[tokens] = packed.to(x.dtype)
        return x * mask

    def dropped_weights(weights: Tensor, p: float) -> Tensor:
        threshold = dropout_threshold(p)
        batch, heads, queries, keys = weights.shape
        (tokens,) = (side for shape, side in sides.items() if shape == (batch, queries))
        packed = weight_mask(torch.arange(int(tokens.sum())), heads, keys, threshold, draw_seed(threshold))
        mask = torch.ones(batch, queries, heads, keys, dtype=weights.dtype)
        mask[tokens] = packed.to(weights.dtype)
        return weights * mask.transpose(1, 2)

    def fused(query: Tensor, keys: Tensor, values: Tensor, **options: object) -> Tensor:
        return ATTEND.plain_attention(ScaledDot().compare(query, keys), values, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Dropout, "forward", dropout)
        patch.setattr("torch.nn.functional.dropout", dropped_weights)
        patch.setattr(ATTEND, "fused_attention", fused)
        yield
