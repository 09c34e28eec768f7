"""softmax(score + bias) over values: the mechanism itself, on tensors of any leading shape.

Two paths, tested equal: the plain one, for every score and whenever the weights are wanted, and PyTorch's
fused kernel for scaled dot products, which never writes the weights down.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.apart import Apart, AttentionStats
from regard.nn.kv_cache import KeyValue, KvCache
from regard.nn.masks import length_mask
from regard.nn.positions import Position
from regard.nn.recorder import Recorder
from regard.nn.scores import ScaledDot, Score, check_equal_sizes

Record = Callable[[Tensor], object]
"""Called with the weights (..., query, key) before dropout."""

Addition = Callable[[Tensor], Tensor | None]
"""From the weights (..., query, key) used, what to add to the mixed values."""


def masked_softmax(
    scores: Tensor, valid_lengths: Tensor | None = None, *, mask: Tensor | None = None
) -> Tensor:
    """Softmax over the keys that may be seen; the others get weight exactly 0.

    scores are (..., query, key). Either valid lengths, one a sequence (batch,) or one a query
    (batch, query), or a boolean mask. A query that may see nothing gets zeros, never NaN.
    """
    if valid_lengths is not None:
        if mask is not None:
            raise ValueError("masked_softmax takes valid_lengths or mask, not both")
        mask = length_mask(valid_lengths, scores.size(-1))
        while mask.dim() < scores.dim():  # the batch is the first axis; what lies between is shared
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
    """Mix the values by how well their keys fit the query.

    query (..., query, size), keys (..., key, size), values (..., key, value size) -> (..., query, value size).
    The score is scaled dot product unless given; `keys` are raw keys. `bias` is added to the scores,
    `dropout` falls on the weights, and `record` is shown the weights.
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
    mask: Tensor | Apart | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    record: Record | None = None,
    addition: Addition | None = None,
    noted: AttentionStats | None = None,
) -> Tensor:
    """`attend` for keys that went through `score.prepare` already; picks the path."""
    if isinstance(mask, Apart):
        return within_sentences(query, prepared, values, score, mask, bias=bias, dropout=dropout, noted=noted)
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(f"a mask is boolean, True = may look; this one is {mask.dtype}")
    if is_plain_scaled_dot(score) and record is None and addition is None:
        return fused(query, prepared, values, mask=mask, bias=bias, dropout=dropout)
    scores = score(query, prepared, prepared=True)  # (..., query, key)
    return plain(scores, values, mask=mask, bias=bias, dropout=dropout, record=record, addition=addition)


def is_plain_scaled_dot(score: Score) -> bool:
    """Whether PyTorch's fused kernel computes this score: the class itself, and no hook to run."""
    return type(score) is ScaledDot and not score._forward_hooks and not score._forward_pre_hooks


def within_sentences(
    query: Tensor,
    prepared: Tensor,
    values: Tensor,
    score: Score,
    apart: Apart,
    *,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    noted: AttentionStats | None = None,
) -> Tensor:
    """`attend_prepared` for a packed batch, (heads, tokens, size): unpacked with padding, and packed again.

    `bias` (tokens,) is added to the scores of each key.
    """

    def record(weights: Tensor) -> None:  # (sentences, heads, query, key)
        assert noted is not None
        asked = apart.queries.real[:, None, :, None]
        noted.received = weights.detach().mul(asked).sum(2).mean(1)[apart.keys.real]

    beside = None if bias is None else apart.keys.side_by_side(bias.view(1, -1, 1)).transpose(2, 3)
    mixed = attend_prepared(
        apart.queries.side_by_side(query),
        apart.keys.side_by_side(prepared),
        apart.keys.side_by_side(values),
        score,
        mask=apart.mask(),
        bias=beside,
        dropout=dropout,
        record=None if noted is None else record,
    )
    return apart.queries.end_to_end(mixed)


def plain(
    scores: Tensor,
    values: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    record: Record | None = None,
    addition: Addition | None = None,
) -> Tensor:
    """The mechanism written out: mask, softmax, mix."""
    if bias is not None:
        scores = scores + bias
    weights = masked_softmax(scores, mask=mask)
    if record is not None:
        record(weights)
    if dropout:
        weights = functional.dropout(weights, dropout)
    mixed = weights @ values
    added = None if addition is None else addition(weights)
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
    """Scaled dot-product attention in PyTorch's one kernel; equal to `plain` with `ScaledDot`."""
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
    """Let queries that may see nothing see everything, and say which: their result is thrown away."""
    blind = ~mask.any(-1, keepdim=True)
    return mask | blind, blind


class Attention(nn.Module):
    """A query looks at a memory; `project_kv` makes the memory once, `forward` asks it as often as needed.

    The projections are identities unless given; `heads` splits what they put out.
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
        self,
        source: Tensor,
        values: Tensor | None = None,
        *,
        cache: KvCache | None = None,
        positions: Tensor | None = None,
    ) -> KeyValue:
        """Project keys and values once: source (batch, key, size).

        Values come from the source too, unless given. With a cache the new keys are appended to it and
        their places count on from there; otherwise they stand at 0, 1, 2 ... unless `positions` (key,) says.
        """
        keys, values = self.key(source), self.value(source if values is None else values)
        start = cache.length if cache is not None else 0
        if positions is None:
            positions = torch.arange(start, start + keys.size(-2), device=keys.device)
        turned = self.position.rotate(split(keys, self.heads), positions)
        memory = KeyValue(self.score.prepare(turned), split(values, self.heads), positions)
        return memory if cache is None else cache.extend(memory)

    def forward(
        self,
        query: Tensor,
        memory: KeyValue,
        *,
        mask: Tensor | Apart | None = None,
        bias: Tensor | None = None,
        positions: Tensor | None = None,
        record: Recorder | None = None,
        noted: AttentionStats | None = None,
    ) -> Tensor:
        """Let each query (batch, query, size) look at the memory: (batch, query, size).

        `mask` is (batch or 1, query or 1, key), or with an axis for heads after the batch. The queries
        stand where the last keys stand, unless `positions` (query,) says otherwise; only position schemes
        that act inside attention ask. With `Apart` the sentences lie end to end: (tokens, size); then a bias is
        (tokens,), one for each key, and `noted` receives how much attention each of them got.
        """
        if positions is None:
            positions = memory.positions[max(0, memory.length - query.size(-2)) :]
        if noted is not None:
            noted.keys = memory.keys.detach().mean(0)
        asked = self.position.rotate(split(self.query(query), self.heads), positions)
        placed = self.position.bias(asked, positions, memory.positions)
        mixed = attend_prepared(
            asked,
            memory.keys,
            memory.values,
            self.score,
            mask=over_heads(mask),
            bias=placed if bias is None else bias if placed is None else bias + placed,
            dropout=self.dropout if self.training else 0.0,
            record=record,
            addition=partial(
                self.position.value_bias, query_positions=positions, key_positions=memory.positions
            )
            if self.position.needs_weights
            else None,
            noted=noted,
        )
        return cast(Tensor, self.output(join(mixed)))


class MultiHead(Attention):
    """Several heads, each with its own d_model / heads wide view of queries, keys and values.

    softmax(Q K^T / sqrt(d_k)) V in every head, joined and projected (Vaswani et al. 2017, section 3.2.2).
    Keys and values may come from vectors of another size than d_model. Keys have no bias unless asked for: it
    adds the same to all scores of a query, which softmax does not see, so its gradient is nothing but rounding.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        position: Position | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        key_bias: bool = False,
    ) -> None:
        if heads < 1 or d_model % heads:
            raise ValueError(f"d_model must be a multiple of heads; {d_model} is not one of {heads}")
        key_size = key_size or d_model
        super().__init__(
            ScaledDot(),
            heads=heads,
            query=projection(d_model, d_model, bias),
            key=projection(key_size, d_model, key_bias),
            value=projection(value_size or key_size, d_model, bias),
            output=projection(d_model, d_model, bias),
            position=position,
            dropout=dropout,
        )


def projection(size: int, out: int, bias: bool = True) -> nn.Linear:
    """A linear map with Xavier-uniform weights and zero bias, as the Transformer starts."""
    linear = nn.Linear(size, out, bias=bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


def split(x: Tensor, heads: int) -> Tensor:
    """(batch, length, heads * size) -> (batch, heads, length, size): a head is a run of neighbours."""
    return x.view(*x.shape[:-1], heads, x.size(-1) // heads).transpose(-2, -3)


def join(x: Tensor) -> Tensor:
    """(batch, heads, length, size) -> (batch, length, heads * size): undoes `split`."""
    return x.transpose(-2, -3).flatten(-2)


def over_heads(mask: Tensor | Apart | None) -> Tensor | Apart | None:
    """Give a mask (batch, query, key) its axis for heads; refuse what could be read in two ways."""
    if mask is None or isinstance(mask, Apart) or mask.dim() == 4:
        return mask
    if mask.dim() != 3:
        raise ValueError(
            "a mask is (batch or 1, query or 1, key), or with an axis for heads after the batch; this one has "
            f"the shape {tuple(mask.shape)} (see padding_mask, length_mask and causal_mask)"
        )
    return mask.unsqueeze(1)
