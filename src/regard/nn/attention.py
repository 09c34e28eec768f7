"""Attention: softmax(score + bias) over values, as a function and as a module.

`attend` has two paths, tested equal: the plain one, for every score and whenever the weights are recorded, and
PyTorch's fused kernel for scaled dot products, which never stores the weights. `Attention` projects, splits
into heads, attends, joins and projects; with identity projections and one head it is Bahdanau's or Luong's
attention or kernel regression, and `MultiHead` fills in the four projections of the Transformer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.kv_cache import KeyValue
from regard.nn.masks import length_mask
from regard.nn.positions import Position
from regard.nn.recorder import Recorder
from regard.nn.scores import ScaledDot, Score, check_equal_sizes

Record = Callable[[Tensor], object]
"""Called with the weights (..., query, key) before dropout."""

ValueBias = Callable[[Tensor], Tensor | None]
"""From the weights (..., query, key), what to add to the weighted values."""


def masked_softmax(
    scores: Tensor, valid_lengths: Tensor | None = None, *, mask: Tensor | None = None
) -> Tensor:
    """Softmax over the keys that a query may attend to; the others get weight exactly 0.

    A query with no key to attend to gets zeros, never NaN.

    Args:
        scores: (..., query, key).
        valid_lengths: One a sequence (batch,), or one a query (batch, query).
        mask: Boolean, True = may attend, broadcast to the scores; instead of valid lengths.

    Raises:
        ValueError: Both valid lengths and a mask are given.
    """
    if valid_lengths is not None:
        if mask is not None:
            raise ValueError("masked_softmax takes valid_lengths or mask, not both")
        mask = length_mask(valid_lengths, scores.size(-1))
        while mask.dim() < scores.dim():  # the batch is the first axis; axes between are broadcast
            mask = mask.unsqueeze(1)
    if mask is None:
        return torch.softmax(scores, dim=-1)
    # The lowest finite number, not -inf: a row of nothing but -inf would be 0/0, forward and backward.
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
    return weights.masked_fill(~mask, 0.0)


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    score: Score | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    record: Record | None = None,
) -> Tensor:
    """Sum of the values, weighted by how well their keys fit the query.

    Args:
        query: (..., query, size).
        keys: (..., key, size), not prepared.
        values: (..., key, value size).
        score: Scaled dot product unless given.
        mask: Boolean, True = may attend, broadcast to (..., query, key).
        bias: Added to the scores, broadcast to (..., query, key).
        dropout: Probability of dropping a weight.
        record: Called with the weights before dropout.

    Returns:
        (..., query, value size).

    Raises:
        TypeError: The mask is not boolean.
    """
    score = ScaledDot() if score is None else score
    return attend_prepared(
        query, score.prepare(keys), values, score, mask=mask, bias=bias, dropout=dropout, record=record
    )


def attend_prepared(
    query: Tensor,
    prepared: Tensor,
    values: Tensor,
    score: Score,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    record: Record | None = None,
    value_bias: ValueBias | None = None,
) -> Tensor:
    """`attend` for keys from `score.prepare`; chooses the path."""
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(f"a mask is boolean, True = may attend; this one is {mask.dtype}")
    if is_plain_scaled_dot(score) and record is None and value_bias is None:
        return fused(query, prepared, values, mask=mask, bias=bias, dropout=dropout)
    scores = score(query, prepared, prepared=True)  # (..., query, key)
    return plain(scores, values, mask=mask, bias=bias, dropout=dropout, record=record, value_bias=value_bias)


def is_plain_scaled_dot(score: Score) -> bool:
    """Whether PyTorch's fused kernel computes this score: the class itself, without hooks."""
    return type(score) is ScaledDot and not score._forward_hooks and not score._forward_pre_hooks


def plain(
    scores: Tensor,
    values: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    record: Record | None = None,
    value_bias: ValueBias | None = None,
) -> Tensor:
    """Attention written out: mask, softmax, weighted sum."""
    if bias is not None:
        scores = scores + bias
    weights = masked_softmax(scores, mask=mask)
    if record is not None:
        record(weights)
    if dropout:
        weights = functional.dropout(weights, dropout)
    mixed = weights @ values
    added = None if value_bias is None else value_bias(weights)
    return mixed if added is None else mixed + added


def fused(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Scaled dot-product attention by PyTorch's fused kernel; equal to `plain` with `ScaledDot`."""
    check_equal_sizes(query, keys)
    blind = None
    if mask is not None and query.device.type != "cpu":
        # The CPU kernels give zeros to a query that may attend to nothing (tested); others may not.
        mask, blind = open_blind(mask)
    added = mask
    if bias is not None:
        added = bias.to(query.dtype)
        if mask is not None:
            added = added.masked_fill(~mask, float("-inf"))
    mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=added, dropout_p=dropout)
    return mixed if blind is None else mixed.masked_fill(blind, 0.0)


def open_blind(mask: Tensor) -> tuple[Tensor, Tensor]:
    """A mask in which queries without any key attend to all, and which queries these are."""
    blind = ~mask.any(-1, keepdim=True)
    return mask | blind, blind


@dataclass
class AttentionStats:
    """Statistics of one self-attention, filled in by it; token reduction is decided by them."""

    nonpad: Tensor | None = None
    """(batch, query): queries that count, all unless given."""
    keys: Tensor | None = None
    """(batch, key, head size): mean of the heads' keys."""
    received: Tensor | None = None
    """(batch, key): sum of the attention that each key got, mean over heads; 1 on average."""

    def record(self, weights: Tensor) -> None:
        """Sum weights (batch, heads, query, key) over the queries."""
        weights = weights.detach()
        if self.nonpad is not None:
            weights = weights * self.nonpad[:, None, :, None]
        self.received = weights.sum(2).mean(1)


class Attention(nn.Module):
    """Attention with projections: `project_kv` computes keys and values once, `forward` attends to them.

    Args:
        score: Scaled dot product unless given. One that has parameters is shared by the heads.
        heads: Number of heads that the projections' outputs are split into.
        query, key, value, output: Projections; identities unless given.
        position: Position scheme inside attention.
        dropout: Probability of dropping a weight in training.

    Raises:
        ValueError: The position scheme is not defined for the score.
    """

    def __init__(
        self,
        score: Score | None = None,
        *,
        heads: int = 1,
        query: nn.Module | None = None,
        key: nn.Module | None = None,
        value: nn.Module | None = None,
        output: nn.Module | None = None,
        position: Position | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.score = ScaledDot() if score is None else score
        self.heads = heads
        self.query = query or nn.Identity()
        self.key = key or nn.Identity()
        self.value = value or nn.Identity()
        self.output = output or nn.Identity()
        self.position = position or Position()
        self.dropout = dropout
        if self.position.needs_weights and not isinstance(self.score, ScaledDot):
            raise ValueError(
                f"{type(self.position).__name__} positions are defined for the scaled dot score, "
                f"not for {type(self.score).__name__}"
            )

    def project_kv(
        self, source: Tensor, values: Tensor | None = None, *, start: int = 0, positions: Tensor | None = None
    ) -> KeyValue:
        """Keys and values of a source, split into heads, rotated by the position scheme, prepared by the score.

        Args:
            source: (batch, key, size).
            values: (batch, key, size) to project values from, the source unless given.
            start: Position of the first key: the length of a cache that is to be extended.
            positions: (key,), instead of start, start + 1, ...
        """
        keys, values = self.key(source), self.value(source if values is None else values)
        if positions is None:
            positions = torch.arange(start, start + keys.size(-2), device=keys.device)
        rotated = self.position.rotate(split(keys, self.heads), positions)
        return KeyValue(self.score.prepare(rotated), split(values, self.heads), positions)

    def forward(
        self,
        query: Tensor,
        memory: KeyValue,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        positions: Tensor | None = None,
        record: Recorder | None = None,
        stats: AttentionStats | None = None,
    ) -> Tensor:
        """Attend from each query (batch, query, size) to the keys: (batch, query, size).

        Args:
            memory: From `project_kv`, or from a cache.
            mask: Boolean, True = may attend: (query, key) as in PyTorch's SDPA, (batch or 1, query or 1, key),
                or (batch or 1, heads or 1, query or 1, key).
            bias: Added to the scores, broadcast to (batch, heads, query, key).
            positions: (query,); the last keys' positions unless given. Only position schemes that act inside
                attention need them.
            record: Called with the weights (batch, heads, query, key).
            stats: Filled in with statistics of this call.

        Raises:
            ValueError: The mask has another number of axes.
            TypeError: The mask is not boolean.
        """
        if positions is None:
            positions = memory.positions[max(0, memory.length - query.size(-2)) :]
        if stats is not None:
            stats.keys = memory.keys.detach().mean(-3)
            if record is not None:
                raise ValueError("attention is recorded or summed up in statistics, not both in one call")
        rotated = self.position.rotate(split(self.query(query), self.heads), positions)
        placed = self.position.bias(rotated, positions, memory.positions)
        mixed = attend_prepared(
            rotated,
            memory.keys,
            memory.values,
            self.score,
            mask=None if mask is None else over_heads(mask),
            bias=placed if bias is None else bias if placed is None else bias + placed,
            dropout=self.dropout if self.training else 0.0,
            record=record if stats is None else stats.record,
            value_bias=partial(
                self.position.value_bias, query_positions=positions, key_positions=memory.positions
            )
            if self.position.needs_weights
            else None,
        )
        return cast(Tensor, self.output(join(mixed)))


class MultiHead(Attention):
    """Multi-head attention: softmax(Q K^T / sqrt(d_k)) V in every head, joined and projected.

    As Vaswani et al. 2017, section 3.2.2.

    Args:
        d_model: Size of queries and outputs; each head has d_model / heads components.
        heads: Number of heads.
        key_size: Size of the source's vectors, d_model unless given.
        value_size: Size of the vectors that values are projected from, `key_size` unless given.
        score: Scaled dot product unless given; it compares vectors of d_model / heads components.
        position: Position scheme inside attention.
        dropout: Probability of dropping a weight in training.
        bias: Whether query, value and output projections have a bias.
        key_bias: Whether the key projection has one. It adds the same to all scaled dot scores of a query,
            which softmax does not see, so its gradient is nothing but rounding.

    Raises:
        ValueError: heads does not divide d_model.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        score: Score | None = None,
        position: Position | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        key_bias: bool = False,
    ) -> None:
        if heads < 1 or d_model % heads:
            raise ValueError(f"d_model must be a multiple of heads; {d_model} is not one of {heads}")
        key_size = key_size or d_model
        super().__init__(
            score,
            heads=heads,
            query=projection(d_model, d_model, bias),
            key=projection(key_size, d_model, key_bias),
            value=projection(value_size or key_size, d_model, bias),
            output=projection(d_model, d_model, bias),
            position=position,
            dropout=dropout,
        )


def projection(size: int, out: int, bias: bool = True) -> nn.Linear:
    """A linear layer with Xavier-uniform weights and zero bias."""
    linear = nn.Linear(size, out, bias=bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


def split(x: Tensor, heads: int) -> Tensor:
    """(batch, length, heads * size) -> (batch, heads, length, size)."""
    return x.view(*x.shape[:-1], heads, x.size(-1) // heads).transpose(-2, -3)


def join(x: Tensor) -> Tensor:
    """(batch, heads, length, size) -> (batch, length, heads * size): the inverse of `split`."""
    return x.transpose(-2, -3).flatten(-2)


def over_heads(mask: Tensor) -> Tensor:
    """A mask (query, key) or (batch, query, key) with an axis for heads."""
    if mask.dim() not in (2, 3, 4):
        raise ValueError(
            "a mask is (query, key), (batch or 1, query or 1, key), or has an axis for heads after the batch; "
            f"this one has the shape {tuple(mask.shape)} (see padding_mask, length_mask and causal_mask)"
        )
    return mask if mask.dim() in (2, 4) else mask.unsqueeze(1)
