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
"""Called with the attention weights (..., query, key) before dropout."""

ValueBias = Callable[[Tensor], Tensor | None]
"""Maps the attention weights (..., query, key) to a term that is added to the weighted values."""


def masked_softmax(
    scores: Tensor, valid_lengths: Tensor | None = None, *, mask: Tensor | None = None
) -> Tensor:
    """Softmax over the keys that a query may attend to; the others get weight exactly 0.

    A query with no key to attend to gets zeros, never NaN.

    Args:
        scores: (..., query, key).
        valid_lengths: Number of valid keys, per sequence (batch,) or per query (batch, query).
        mask: Boolean, True = may attend, broadcast to the scores; an alternative to `valid_lengths`.

    Returns:
        Attention weights (..., query, key).

    Raises:
        ValueError: Both valid lengths and a mask are given.
    """
    if valid_lengths is not None:
        if mask is not None:
            raise ValueError("masked_softmax takes valid_lengths or mask, not both")
        mask = length_mask(valid_lengths, scores.size(-1))
        while mask.dim() < scores.dim():  # the batch is the first axis; the axes in between are broadcast
            mask = mask.unsqueeze(1)
    if mask is None:
        return torch.softmax(scores, dim=-1)
    # The lowest finite number, not -inf: a row of -inf only would give 0/0, forward and backward.
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
    """Attention as a function: the sum of the values, weighted by how well their keys match the query.

    Args:
        query: (..., query, size).
        keys: (..., key, size), before `Score.prepare`.
        values: (..., key, value size).
        score: Score function; the default is the scaled dot product.
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
    """`attend` for keys that went through `score.prepare`; chooses the fused or the plain path."""
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(f"a mask is boolean (True = may attend), not {mask.dtype}")
    if is_plain_scaled_dot(score) and record is None and value_bias is None:
        return fused_attention(query, prepared, values, mask=mask, bias=bias, dropout=dropout)
    scores = score(query, prepared, prepared=True)  # (..., query, key)
    return plain_attention(
        scores, values, mask=mask, bias=bias, dropout=dropout, record=record, value_bias=value_bias
    )


def is_plain_scaled_dot(score: Score) -> bool:
    """Whether PyTorch's fused kernel computes this score: `ScaledDot` itself, not a subclass, without hooks."""
    return type(score) is ScaledDot and not score._forward_hooks and not score._forward_pre_hooks


def plain_attention(
    scores: Tensor,
    values: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    record: Record | None = None,
    value_bias: ValueBias | None = None,
) -> Tensor:
    """Attention in plain PyTorch operations: mask, softmax, dropout, weighted sum.

    Args:
        scores: (..., query, key).
        values: (..., key, value size).
        mask, bias, dropout, record: As for `attend`.
        value_bias: Maps the weights to a term that is added to the weighted values.

    Returns:
        (..., query, value size).
    """
    if bias is not None:
        scores = scores + bias
    weights = masked_softmax(scores, mask=mask)
    if record is not None:
        record(weights)
    if dropout:
        weights = functional.dropout(weights, dropout)
    context = weights @ values
    value_term = None if value_bias is None else value_bias(weights)
    return context if value_term is None else context + value_term


def fused_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Scaled dot-product attention by PyTorch's fused kernel; equal to `plain_attention` with `ScaledDot`."""
    check_equal_sizes(query, keys)
    empty_rows = None
    if mask is not None and query.device.type != "cpu":
        # The CPU kernels return zeros for a query that may attend to no key (tested); other kernels may not.
        mask, empty_rows = unmask_empty_rows(mask)
    attn_mask = mask
    if bias is not None:
        attn_mask = bias.to(query.dtype)
        if mask is not None:
            attn_mask = attn_mask.masked_fill(~mask, float("-inf"))
    context = functional.scaled_dot_product_attention(
        query, keys, values, attn_mask=attn_mask, dropout_p=dropout
    )
    return context if empty_rows is None else context.masked_fill(empty_rows, 0.0)


def unmask_empty_rows(mask: Tensor) -> tuple[Tensor, Tensor]:
    """A mask in which queries without any allowed key attend to all keys, and which queries these are."""
    empty_rows = ~mask.any(-1, keepdim=True)
    return mask | empty_rows, empty_rows


@dataclass
class AttentionStats:
    """Statistics of one self-attention call, which fills them in; token reduction selects tokens by them."""

    nonpad: Tensor | None = None
    """(batch, query): queries that are counted; None: all."""
    keys: Tensor | None = None
    """(batch, key, head size): mean of the heads' keys."""
    received: Tensor | None = None
    """(batch, key): attention that each key received, summed over queries, mean over heads; 1 on average."""

    def record(self, weights: Tensor) -> None:
        """Sum weights (batch, heads, query, key) over the queries."""
        weights = weights.detach()
        if self.nonpad is not None:
            weights = weights * self.nonpad[:, None, :, None]
        self.received = weights.sum(2).mean(1)


class Attention(nn.Module):
    """Attention with projections: `project_kv` computes keys and values once, `forward` attends to them.

    Args:
        score: Score function; the default is the scaled dot product. One with parameters is shared by the
            heads.
        heads: Number of heads that the projections' outputs are split into.
        query, key, value, output: Projections; the default is the identity.
        position: Position scheme inside attention; the default is none.
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
        """Keys and values of a source: projected, split into heads, rotated, and prepared by the score.

        Args:
            source: (batch, key, size).
            values: (batch, key, size), the input of the value projection; the default is the source.
            start: Position of the first key: the length of the cache that is to be extended.
            positions: (key,); the default is start, start + 1, ...

        Returns:
            Keys and values (batch, heads, key, head size), with the keys' positions.
        """
        keys, values = self.key(source), self.value(source if values is None else values)
        if positions is None:
            positions = torch.arange(start, start + keys.size(-2), device=keys.device)
        rotated = self.position.rotate(split_heads(keys, self.heads), positions)
        return KeyValue(self.score.prepare(rotated), split_heads(values, self.heads), positions)

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
        """Attend from each query to the keys.

        Args:
            query: (batch, query, size).
            memory: Keys and values from `project_kv`, or from a cache.
            mask: Boolean, True = may attend: (query, key) as in PyTorch's SDPA, (batch or 1, query or 1, key),
                or (batch or 1, heads or 1, query or 1, key).
            bias: Added to the scores, broadcast to (batch, heads, query, key).
            positions: (query,); the default are the last keys' positions. Only position schemes that act inside
                attention need them.
            record: Called with the weights (batch, heads, query, key).
            stats: Filled in with statistics of this call.

        Returns:
            (batch, query, size).

        Raises:
            ValueError: The mask has another number of axes, or both `record` and `stats` are given.
            TypeError: The mask is not boolean.
        """
        if positions is None:
            positions = memory.positions[max(0, memory.length - query.size(-2)) :]
        if stats is not None:
            stats.keys = memory.keys.detach().mean(-3)
            if record is not None:
                raise ValueError("attention takes record or stats, not both in one call")
        rotated = self.position.rotate(split_heads(self.query(query), self.heads), positions)
        position_bias = self.position.bias(rotated, positions, memory.positions)
        if position_bias is not None:
            bias = position_bias if bias is None else bias + position_bias
        context = attend_prepared(
            rotated,
            memory.keys,
            memory.values,
            self.score,
            mask=None if mask is None else add_head_axis(mask),
            bias=bias,
            dropout=self.dropout if self.training else 0.0,
            record=record if stats is None else stats.record,
            value_bias=partial(
                self.position.value_bias, query_positions=positions, key_positions=memory.positions
            )
            if self.position.needs_weights
            else None,
        )
        return cast(Tensor, self.output(join_heads(context)))


class MultiHead(Attention):
    """Multi-head attention: softmax(Q K^T / sqrt(d_k)) V in every head, concatenated and projected.

    As Vaswani et al. 2017, section 3.2.2.

    Args:
        d_model: Size of queries and outputs; each head has d_model / heads components.
        heads: Number of heads.
        key_size: Size of the source's vectors; the default is d_model.
        value_size: Size of the value projection's input; the default is `key_size`.
        score: Score function for vectors of d_model / heads components; the default is the scaled dot product.
        position: Position scheme inside attention.
        dropout: Probability of dropping a weight in training.
        bias: Whether query, value and output projections have a bias.
        key_bias: Whether the key projection has a bias. It adds the same number to all scaled dot scores of a
            query, which softmax ignores, so its gradient is only rounding error.

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
            raise ValueError(f"d_model must be a multiple of heads; {d_model} is not a multiple of {heads}")
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


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(batch, length, heads * size) -> (batch, heads, length, size)."""
    return x.view(*x.shape[:-1], heads, x.size(-1) // heads).transpose(-2, -3)


def join_heads(x: Tensor) -> Tensor:
    """(batch, heads, length, size) -> (batch, length, heads * size): the inverse of `split_heads`."""
    return x.transpose(-2, -3).flatten(-2)


def add_head_axis(mask: Tensor) -> Tensor:
    """Insert the axis of heads into a mask (batch, query, key); other masks are returned as they are."""
    if mask.dim() not in (2, 3, 4):
        raise ValueError(
            "a mask is (query, key), (batch or 1, query or 1, key) or (batch or 1, heads or 1, query or 1, "
            f"key), not {tuple(mask.shape)} (see padding_mask, length_mask and causal_mask)"
        )
    return mask if mask.dim() in (2, 4) else mask.unsqueeze(1)
