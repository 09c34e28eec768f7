"""softmax(score + bias) over values: the mechanism itself, on tensors of any leading shape.

Two paths, tested equal: the plain one, for every score and whenever the weights are wanted, and PyTorch's
fused kernel for scaled dot products, which never writes the weights down.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from regard.attention.apart import Apart, Noted
from regard.attention.masks import length_mask
from regard.attention.score import ScaledDot, Score, check_equal_sizes

Watch = Callable[[Tensor], object]
"""Called with the weights (..., query, key) before dropout."""

Addition = Callable[[Tensor], Tensor | None]
"""From the weights (..., query, key) used, what to add to the mixed values."""


def masked_softmax(
    scores: Tensor, valid_lengths: Tensor | None = None, *, may_look: Tensor | None = None
) -> Tensor:
    """Softmax over the keys that may be seen; the others get weight exactly 0.

    scores are (..., query, key). Either valid lengths, one a sequence (batch,) or one a query
    (batch, query), or a boolean mask. A query that may see nothing gets zeros, never NaN.
    """
    if valid_lengths is not None:
        if may_look is not None:
            raise ValueError("masked_softmax takes valid_lengths or may_look, not both")
        may_look = length_mask(valid_lengths, scores.size(-1))
        while may_look.dim() < scores.dim():  # the batch is the first axis; what lies between is shared
            may_look = may_look.unsqueeze(1)
    if may_look is None:
        return torch.softmax(scores, dim=-1)
    # The lowest finite number, not -inf: a row of nothing but -inf would be 0/0, forward and backward.
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~may_look, lowest), dim=-1)
    return weights.masked_fill(~may_look, 0.0)


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    score: Score | None = None,
    may_look: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    watch: Watch | None = None,
) -> Tensor:
    """Mix the values by how well their keys fit the query.

    query (..., query, size), keys (..., key, size), values (..., key, value size) -> (..., query, value size).
    The score is scaled dot product unless given; `keys` are raw keys. `bias` is added to the scores,
    `dropout` falls on the weights, and `watch` is shown the weights.
    """
    score = ScaledDot() if score is None else score
    return attend_prepared(
        query, score.prepare(keys), values, score, may_look=may_look, bias=bias, dropout=dropout, watch=watch
    )


def attend_prepared(
    query: Tensor,
    prepared: Tensor,
    values: Tensor,
    score: Score,
    *,
    may_look: Tensor | Apart | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    watch: Watch | None = None,
    addition: Addition | None = None,
    noted: Noted | None = None,
) -> Tensor:
    """`attend` for keys that went through `score.prepare` already; picks the path."""
    if isinstance(may_look, Apart):
        return within_sentences(
            query, prepared, values, score, may_look, bias=bias, dropout=dropout, noted=noted
        )
    if may_look is not None and may_look.dtype != torch.bool:
        raise TypeError(f"a mask is boolean, True = may look; this one is {may_look.dtype}")
    if is_plain_scaled_dot(score) and watch is None and addition is None:
        return fused(query, prepared, values, may_look=may_look, bias=bias, dropout=dropout)
    scores = score(query, prepared, prepared=True)  # (..., query, key)
    return plain(scores, values, may_look=may_look, bias=bias, dropout=dropout, watch=watch, addition=addition)


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
    noted: Noted | None = None,
) -> Tensor:
    """`attend_prepared` for a packed batch, (heads, tokens, size): unpacked with padding, and packed again.

    `bias` (tokens,) is added to the scores of each key.
    """

    def watch(weights: Tensor) -> None:  # (sentences, heads, query, key)
        assert noted is not None
        asked = apart.queries.real[:, None, :, None]
        noted.received = weights.detach().mul(asked).sum(2).mean(1)[apart.keys.real]

    beside = None if bias is None else apart.keys.side_by_side(bias.view(1, -1, 1)).transpose(2, 3)
    mixed = attend_prepared(
        apart.queries.side_by_side(query),
        apart.keys.side_by_side(prepared),
        apart.keys.side_by_side(values),
        score,
        may_look=apart.mask(),
        bias=beside,
        dropout=dropout,
        watch=None if noted is None else watch,
    )
    return apart.queries.end_to_end(mixed)


def plain(
    scores: Tensor,
    values: Tensor,
    *,
    may_look: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    watch: Watch | None = None,
    addition: Addition | None = None,
) -> Tensor:
    """The mechanism written out: mask, softmax, mix."""
    if bias is not None:
        scores = scores + bias
    weights = masked_softmax(scores, may_look=may_look)
    if watch is not None:
        watch(weights)
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
    may_look: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Scaled dot-product attention in PyTorch's one kernel; equal to `plain` with `ScaledDot`."""
    check_equal_sizes(query, keys)
    blind = None
    if may_look is not None and query.device.type != "cpu":
        # The CPU kernels give zeros to a query that may see nothing (tested); other devices do not promise it.
        may_look, blind = open_blind(may_look)
    mask = may_look
    if bias is not None:
        mask = bias.to(query.dtype)
        if may_look is not None:
            mask = mask.masked_fill(~may_look, float("-inf"))
    mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask, dropout_p=dropout)
    return mixed if blind is None else mixed.masked_fill(blind, 0.0)


def open_blind(may_look: Tensor) -> tuple[Tensor, Tensor]:
    """Let queries that may see nothing see everything, and say which: their result is thrown away."""
    blind = ~may_look.any(-1, keepdim=True)
    return may_look | blind, blind
