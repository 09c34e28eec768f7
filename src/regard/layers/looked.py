"""Attention with the norm before it and the path around it: one call there and one back.

Its plain twin is `Residual` with the norm before: a norm, the projections, attention within sentences, the
projection of what was seen, dropout and an addition.
"""

import ctypes
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.attention import Apart, Attention, Position
from regard.attention.apart import dropped_of
from regard.attention.linear import Linear
from regard.attention.score import ScaledDot
from regard.engine import Around, Asked, Looked, address, in_c, kernels, laid_out
from regard.layers.dropout import Dropout, chance
from regard.layers.thought import watched


def looked(
    x: Tensor,
    norm: nn.Module,
    attention: Attention,
    dropout: Dropout,
    apart: object,
    source: Tensor | None = None,
) -> Tensor | None:
    """x + dropout(attention(norm(x))), of sentences end to end, to themselves or to the source's.

    While training on a CPU; None where it is not for the kernel to do.
    """
    maps = [attention.query, attention.key, attention.value, attention.output]
    linear = [each for each in maps if isinstance(each, Linear)]
    if (
        not isinstance(apart, Apart)
        or len(linear) < len(maps)
        or not isinstance(norm, nn.LayerNorm)
        or not isinstance(attention.score, ScaledDot)
        or type(attention.position) is not Position
        or not torch.is_grad_enabled()
        or not in_c(x, x if source is None else source, norm.weight, *(each.weight for each in linear))
        or any(each.weight.shape != (x.size(-1), x.size(-1)) for each in linear)
        or x.size(-1) // attention.heads % 8
        or watched(norm, attention, dropout, *linear)
    ):
        return None
    inside = dropped_of(attention.dropout) if attention.training else 0
    chances = (inside, chance() if inside else 0, dropout.bytes, chance() if dropout.bytes else 0)
    weights = [each for one in linear for each in (one.weight, one.bias)]
    out = _Looked.apply(x, source, apart, attention.heads, norm.eps, chances, norm.weight, norm.bias, *weights)  # type: ignore[no-untyped-call]
    return cast(Tensor, out)


class _Looked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        source: Tensor | None,
        apart: Apart,
        heads: int,
        epsilon: float,
        chances: tuple[int, int, int, int],
        norm: Tensor,
        norm_bias: Tensor,
        *maps: Tensor | None,
    ) -> Tensor:
        native = kernels()
        assert native is not None
        weights, biases = cast(list[Tensor], list(maps[::2])), list(maps[1::2])
        ctx.without_bias = [each is None for each in biases]
        some = [x.new_zeros(len(norm)) if each is None else each for each in biases]
        from_x = 3 if source is None else 1  # of query, key and value
        ask, recall = torch.cat(weights[:from_x]), None if source is None else torch.cat(weights[1:3])
        ctx.apart, ctx.heads, ctx.epsilon, ctx.chances = apart, heads, epsilon, chances
        ask_bias, recall_bias = torch.cat(some[:from_x]), torch.cat(some[1:3])
        rows, width = x.shape
        normed, mixed, out = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
        asked, norms = x.new_empty(rows, from_x * width), x.new_empty(rows, heads)
        recalled = x.new_empty(0 if source is None else len(source), 2 * width)
        laid = [None if each is None else laid_out(each) for each in (ask, recall, weights[3])]
        given = question(ctx, x, norm, norm_bias, source, laid, [ask_bias, recall_bias, some[3]])
        native.look_there(ctypes.byref(given), *map(address, (normed, asked, recalled, mixed, norms, out)))
        ctx.save_for_backward(
            x, source, norm, norm_bias, ask, recall, weights[3], normed, asked, recalled, mixed, norms
        )
        return out

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        native = kernels()
        assert native is not None
        x, source, norm, norm_bias, ask, recall, tell, normed, asked, recalled, mixed, norms = ctx.saved_tensors
        gradient = upstream[0].contiguous()
        laid = [None if each is None else laid_out(each, turned=True) for each in (ask, recall, tell)]
        given = question(ctx, x, norm, norm_bias, source, laid, [None] * 3)
        of_x, of_said, of_mixed = (torch.empty_like(x) for _ in range(3))
        of_source = None if source is None else torch.empty_like(source)
        of_asked, of_recalled = torch.empty_like(asked), torch.empty_like(recalled)
        width = x.size(1)
        sums = x.new_empty(6 * width)
        native.look_back(
            ctypes.byref(given),
            *map(address, (gradient, asked, recalled, mixed, norms, of_x)),
            None if of_source is None else address(of_source),
            *map(address, (of_said, of_mixed, of_asked, of_recalled, sums)),
        )
        of_tell_bias, of_norm, of_norm_bias, *of_biases = sums.split(width)
        of_weights = list((of_asked.T @ normed).split(width))
        if source is not None:
            of_weights += (of_recalled.T @ source).split(width)
        of_weights.append(of_said.T @ mixed)
        of_maps = [
            each
            for weight, bias, without in zip(
                of_weights, [*of_biases, of_tell_bias], ctx.without_bias, strict=True
            )
            for each in (weight, None if without else bias)
        ]
        return of_x, of_source, None, None, None, None, of_norm, of_norm_bias, *of_maps


def question(
    ctx: Any,
    x: Tensor,
    norm: Tensor,
    norm_bias: Tensor,
    source: Tensor | None,
    laid: list[Tensor | None],
    biases: list[Tensor | None],
) -> Looked:
    """What the kernel is asked; whatever is laid out must live as long as it runs."""
    size = x.size(1) // ctx.heads
    inside, seed_inside, around, seed = ctx.chances
    apart: Apart = ctx.apart
    return Looked(
        Around(*map(address, (x, norm, norm_bias)), *x.shape, around, seed, ctx.epsilon),
        None if source is None else address(source),
        *(None if each is None else address(each) for each in (*laid, *biases)),
        0 if source is None else len(source),
        0,
        Asked(
            None, None, None, 0, 0, 0,
            address(apart.queries.start), address(apart.keys.start), len(apart.queries.lengths),
            ctx.heads, size, apart.causal, inside, size**-0.5, seed_inside, None, None,
        ),
    )  # fmt: skip
