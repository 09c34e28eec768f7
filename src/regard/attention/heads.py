"""Attention as a module: project, split into heads, attend, join, project.

One class serves every model. With identity projections and one head it is Bahdanau's or Luong's attention
or kernel regression; `MultiHead` fills in the four projections of the Transformer.
"""

from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.apart import Apart, Noted
from regard.attention.attend import attend_prepared
from regard.attention.cache import Cache, KeyValue
from regard.attention.positions import Position
from regard.attention.recorder import Recorder
from regard.attention.score import ScaledDot, Score


class Attention(nn.Module):
    """A query looks at a memory; `remember` makes the memory once, `forward` asks it as often as needed.

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

    def remember(
        self,
        source: Tensor,
        values: Tensor | None = None,
        *,
        cache: Cache | None = None,
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
        turned = self.position.turn(split(keys, self.heads), positions)
        memory = KeyValue(self.score.prepare(turned), split(values, self.heads), positions)
        return memory if cache is None else cache.extend(memory)

    def forward(
        self,
        query: Tensor,
        memory: KeyValue,
        *,
        may_look: Tensor | Apart | None = None,
        bias: Tensor | None = None,
        positions: Tensor | None = None,
        record: Recorder | None = None,
        noted: Noted | None = None,
    ) -> Tensor:
        """Let each query (batch, query, size) look at the memory: (batch, query, size).

        `may_look` is (batch or 1, query or 1, key), or with an axis for heads after the batch. The queries
        stand where the last keys stand, unless `positions` (query,) says otherwise; only position schemes
        that act inside attention ask. With `Apart` the sentences lie end to end: (tokens, size); then a bias is
        (tokens,), one for each key, and `noted` receives how much attention each of them got.
        """
        if positions is None:
            positions = memory.positions[max(0, memory.length - query.size(-2)) :]
        if noted is not None:
            noted.keys = memory.keys.detach().mean(0)
        asked = self.position.turn(split(self.query(query), self.heads), positions)
        placed = self.position.bias(asked, positions, memory.positions)
        mixed = attend_prepared(
            asked,
            memory.keys,
            memory.values,
            self.score,
            may_look=over_heads(may_look),
            bias=placed if bias is None else bias if placed is None else bias + placed,
            dropout=self.dropout if self.training else 0.0,
            watch=record,
            addition=partial(self.position.mix, query_positions=positions, key_positions=memory.positions)
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


def over_heads(may_look: Tensor | Apart | None) -> Tensor | Apart | None:
    """Give a mask (batch, query, key) its axis for heads; refuse what could be read in two ways."""
    if may_look is None or isinstance(may_look, Apart) or may_look.dim() == 4:
        return may_look
    if may_look.dim() != 3:
        raise ValueError(
            "a mask is (batch or 1, query or 1, key), or with an axis for heads after the batch; this one has "
            f"the shape {tuple(may_look.shape)} (see padding_mask, length_mask and causal_mask)"
        )
    return may_look.unsqueeze(1)
