"""Differentiable operations on packed batches, each one or two kernel calls.

Every one of them has a plain PyTorch twin in `regard.nn`. What the backward pass
needs is kept as tensors (`save_for_backward`), never as addresses, so that activation checkpointing and
offloading see it; a second derivative is refused.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.engine.gemm import linear_packed, prepack
from regard.engine.library import data_ptr, first_order, library, optional_ptr
from regard.engine.pack import PackedMask, SequenceOffsets
from regard.engine.plan import tensors_supported
from regard.engine.structs import Around, Asked, Looked, Thought


def draw_seed(threshold: int) -> int:
    """A seed for dropout by a kernel, from PyTorch's generator; none is drawn where nothing is dropped."""
    return int(torch.randint(2**62, ())) if threshold else 0


def linear(x: Tensor, layers: Sequence[nn.Linear]) -> Sequence[Tensor]:
    """x (tokens, in) through linear layers side by side, by one product: (tokens, out) each."""
    if not torch.is_grad_enabled():  # PyTorch's own product is as fast where no gradient is wanted
        return [functional.linear(x, each.weight, each.bias) for each in layers]
    if len(layers) == 1:
        return [cast(Tensor, _Linear.apply(x, layers[0].weight, layers[0].bias))]  # type: ignore[no-untyped-call]
    weights: list[Tensor] = [each.weight for each in layers]
    biases: list[Tensor] = [
        each.weight.new_zeros(each.out_features) if each.bias is None else each.bias for each in layers
    ]
    out = cast(Tensor, _Linear.apply(x, torch.cat(weights), torch.cat(biases)))  # type: ignore[no-untyped-call]
    return out.split_with_sizes([each.out_features for each in layers], -1)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x, weight)
        return linear_packed(x, prepack(weight), len(weight), bias)

    @staticmethod
    @first_order
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = upstream[0].contiguous()
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = linear_packed(gradient, prepack(weight, transposed=True), weight.size(1))
        of_bias = gradient.sum(0) if ctx.needs_input_grad[2] else None
        return of_x, gradient.T @ x, of_bias  # PyTorch's product is the faster one for this shape


def dropout_add(x: Tensor | None, y: Tensor, threshold: int, seed: int | None = None) -> Tensor:
    """x + dropout(y) in one pass; without x, dropout(y)."""
    if not threshold:
        return y if x is None else x + y
    seed = draw_seed(threshold) if seed is None else seed
    return cast(Tensor, _DropoutAdd.apply(y, x, threshold, seed))  # type: ignore[no-untyped-call]


class _DropoutAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor | None, threshold: int, seed: int) -> Tensor:
        ctx.dropout = threshold, seed
        return _dropped(y.contiguous(), None if x is None else x.contiguous(), threshold, seed)

    @staticmethod
    @first_order
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradient = upstream[0].contiguous()
        return _dropped(gradient, None, *ctx.dropout), gradient if ctx.needs_input_grad[1] else None, None, None


def _dropped(y: Tensor, x: Tensor | None, threshold: int, seed: int) -> Tensor:
    out = torch.empty_like(y)
    library().add_dropped(optional_ptr(x), data_ptr(y), data_ptr(out), y.numel(), threshold, seed)
    return out


def varlen_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: PackedMask,
    threshold: int = 0,
    *,
    bias: Tensor | None = None,
    received: Tensor | None = None,
) -> Tensor:
    """Scaled dot-product attention within the sequences of a packed batch, (heads, tokens, size) all.

    Args:
        threshold: Dropout of the weights, in 256ths.
        bias: (tokens,), added to the scores of each key.
        received: (tokens,), zeros; the attention that each key gets is added to it, summed over heads.

    Raises:
        ValueError: The sequences' lengths do not add up to the tokens given.
    """
    check_lengths(mask.queries, query.size(1), "queries")
    check_lengths(mask.keys, keys.size(1), "keys")
    if len(mask.queries.lengths) != len(mask.keys.lengths):
        raise ValueError(
            f"{len(mask.queries.lengths)} sequences of queries cannot attend to "
            f"{len(mask.keys.lengths)} sequences of keys"
        )
    if values.shape != keys.shape or query.size(0) != keys.size(0) or query.size(2) != keys.size(2):
        raise ValueError(f"queries {tuple(query.shape)} do not fit keys {tuple(keys.shape)}")
    if bias is not None and bias.requires_grad:
        raise ValueError("the bias of varlen_attention has no gradient; detach it")
    query, keys, values = (in_rows(each) for each in (query, keys, values))
    seed = draw_seed(threshold)
    return cast(
        Tensor,
        _VarlenAttention.apply(query, keys, values, bias, received, mask, threshold, seed),  # type: ignore[no-untyped-call]
    )


def check_lengths(ends: SequenceOffsets, tokens: int, what: str) -> None:
    """Refuse sequences that reach beyond the tokens given, before C sees them."""
    lengths = ends.lengths
    if int(ends.offsets[-1]) != tokens or (len(lengths) and int(lengths.min()) < 0):
        raise ValueError(
            f"the lengths of the {what} add up to {int(ends.offsets[-1])}, but there are {tokens} tokens"
        )


def in_rows(x: Tensor) -> Tensor:
    """x (heads, tokens, size) as a view of (tokens, heads, size) with a token's heads next to each other."""
    if x.stride(2) == 1 and (x.stride(0) == x.size(2) or x.size(0) == 1):
        return x
    return x.transpose(0, 1).contiguous().transpose(0, 1)


class _VarlenAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        bias: Tensor | None,
        received: Tensor | None,
        mask: PackedMask,
        threshold: int,
        seed: int,
    ) -> Tensor:
        heads, tokens, size = query.shape
        out, norms = query.new_empty(tokens, heads, size), query.new_empty(tokens, heads)
        bias = None if bias is None else bias.contiguous()
        request = _attention_request(query, keys, values, bias, received, mask, threshold, seed)
        library().attend_apart(ctypes.byref(request), data_ptr(out), data_ptr(norms))
        ctx.mask, ctx.dropout = mask, (threshold, seed)
        ctx.save_for_backward(query, keys, values, bias, out, norms)
        return out.transpose(0, 1)

    @staticmethod
    @first_order
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        query, keys, values, bias, out, norms = ctx.saved_tensors
        query, keys, values = (in_rows(each) for each in (query, keys, values))
        out, norms = out.contiguous(), norms.contiguous()
        gradient = upstream[0].transpose(0, 1).contiguous()
        of_query, of_keys, of_values = (
            each.new_empty(each.size(1), each.size(0), each.size(2)) for each in (query, keys, values)
        )
        request = _attention_request(query, keys, values, bias, None, ctx.mask, *ctx.dropout)
        library().attend_apart_backward(
            ctypes.byref(request),
            *map(data_ptr, (out, norms, gradient, of_query, of_keys, of_values)),
            *(each.size(0) * each.size(2) for each in (query, keys)),
        )
        gradients = (each.transpose(0, 1) for each in (of_query, of_keys, of_values))
        return (*gradients, None, None, None, None, None)


def _attention_request(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    bias: Tensor | None,
    received: Tensor | None,
    mask: PackedMask,
    threshold: int,
    seed: int,
) -> Asked:
    heads, _, size = query.shape
    return Asked(
        *map(data_ptr, (query, keys, values)),
        *(each.stride(1) for each in (query, keys, values)),
        data_ptr(mask.queries.offsets),
        data_ptr(mask.keys.offsets),
        len(mask.queries.lengths),
        heads,
        size,
        mask.causal,
        threshold,
        size**-0.5,
        seed,
        optional_ptr(bias),
        optional_ptr(received),
    )


def linear_relu_dropout(x: Tensor, layer: nn.Linear, threshold: int, seed: int | None = None) -> Tensor:
    """dropout(relu(layer(x))): bias, ReLU and dropout in one pass."""
    seed = draw_seed(threshold) if seed is None else seed
    return cast(Tensor, _LinearReluDropout.apply(x, layer.weight, layer.bias, threshold, seed))  # type: ignore[no-untyped-call]


class _LinearReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, threshold: int, seed: int) -> Tensor:
        out = linear_packed(x.contiguous(), prepack(weight), len(weight))
        library().relu_dropped(data_ptr(out), data_ptr(bias), *out.shape, threshold, seed)
        ctx.save_for_backward(x, weight, out)
        ctx.threshold = threshold
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, out = ctx.saved_tensors
        gradient, out = upstream[0].contiguous(), out.contiguous()
        inner, of_bias = torch.empty_like(out), out.new_empty(out.size(1))
        library().relu_dropped_backward(
            *map(data_ptr, (gradient, out, inner, of_bias)), *out.shape, ctx.threshold
        )
        of_x = linear_packed(inner, prepack(weight, transposed=True), weight.size(1))
        return of_x, inner.T @ x, of_bias, None, None


def linear_gelu(x: Tensor, layer: nn.Linear) -> Tensor:
    """gelu(layer(x)) by the tanh approximation: bias and GELU in one pass."""
    return cast(Tensor, _LinearGelu.apply(x, layer.weight, layer.bias))  # type: ignore[no-untyped-call]


class _LinearGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        inner = linear_packed(x.contiguous(), prepack(weight), len(weight))
        out = torch.empty_like(inner)
        library().gelu(*map(data_ptr, (inner, bias, out)), *out.shape)
        ctx.save_for_backward(x, weight, inner)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, inner = ctx.saved_tensors
        gradient, inner = upstream[0].contiguous(), inner.contiguous()
        of_inner, of_bias = torch.empty_like(inner), inner.new_empty(inner.size(1))
        library().gelu_backward(*map(data_ptr, (gradient, inner, of_inner, of_bias)), *inner.shape)
        of_x = linear_packed(of_inner, prepack(weight, transposed=True), weight.size(1))
        return of_x, of_inner.T @ x, of_bias


def feed_forward_sublayer(
    x: Tensor, norm: nn.LayerNorm, fc1: nn.Linear, fc2: nn.Linear, inner_threshold: int, threshold: int
) -> Tensor:
    """x + dropout(fc2(dropout(relu(fc1(norm(x)))))) in one call each way; x (tokens, d_model)."""
    inner = (inner_threshold, draw_seed(inner_threshold))
    outer = (threshold, draw_seed(threshold), norm.eps)
    weights = (norm.weight, norm.bias, fc1.weight, fc1.bias, fc2.weight, fc2.bias)
    return cast(Tensor, _FeedForwardSublayer.apply(x, *weights, inner, outer))  # type: ignore[no-untyped-call]


class _FeedForwardSublayer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        norm: Tensor,
        norm_bias: Tensor,
        fc1: Tensor,
        fc1_bias: Tensor,
        fc2: Tensor,
        fc2_bias: Tensor,
        inner: tuple[int, int],
        outer: tuple[int, int, float],
    ) -> Tensor:
        ctx.inner, ctx.outer = inner, outer
        x = x.contiguous()
        packed1, packed2 = prepack(fc1), prepack(fc2)
        request = Thought(
            Around(*map(data_ptr, (x, norm, norm_bias)), *x.shape, *outer),
            *map(data_ptr, (packed1, packed2, fc1_bias, fc2_bias)),
            len(fc1),
            *inner,
        )
        normed, wide, out = torch.empty_like(x), x.new_empty(len(x), len(fc1)), torch.empty_like(x)
        library().think_there(ctypes.byref(request), *map(data_ptr, (normed, wide, out)))
        ctx.save_for_backward(x, norm, norm_bias, fc1, fc2, normed, wide)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, norm, norm_bias, fc1, fc2, normed, wide = (each.contiguous() for each in ctx.saved_tensors)
        gradient = upstream[0].contiguous()
        packed1, packed2 = prepack(fc1, transposed=True), prepack(fc2, transposed=True)
        request = Thought(
            Around(*map(data_ptr, (x, norm, norm_bias)), *x.shape, *ctx.outer),
            *map(data_ptr, (packed1, packed2)),
            None,
            None,
            len(fc1),
            *ctx.inner,
        )
        of_x, of_out, of_wide = torch.empty_like(x), torch.empty_like(x), torch.empty_like(wide)
        d_ff, width = fc1.shape
        sums = x.new_empty(d_ff + 3 * width)
        library().think_back(
            ctypes.byref(request), *map(data_ptr, (gradient, wide, of_x, of_out, of_wide, sums))
        )
        of_bias1, of_bias2, of_norm, of_norm_bias = sums.split_with_sizes([d_ff, *[width] * 3])
        of_weights = (of_wide.T @ normed, of_bias1, of_out.T @ wide, of_bias2)
        return of_x, of_norm, of_norm_bias, *of_weights, None, None


def attention_sublayer(
    x: Tensor,
    norm: nn.LayerNorm,
    projections: Sequence[nn.Linear],
    heads: int,
    mask: PackedMask,
    weight_threshold: int,
    threshold: int,
    source: Tensor | None = None,
) -> Tensor:
    """x + dropout(attention(norm(x))) in one call each way; x (tokens, d_model).

    The projections are query, key, value and output. Keys and values come from `source` (tokens, d_model)
    where one is given, else from the normed x.
    """
    check_lengths(mask.queries, len(x), "queries")
    check_lengths(mask.keys, len(x) if source is None else len(source), "keys")
    dropout = (weight_threshold, draw_seed(weight_threshold), threshold, draw_seed(threshold))
    weights = [each for layer in projections for each in (layer.weight, layer.bias)]
    out = _AttentionSublayer.apply(x, source, mask, heads, norm.eps, dropout, norm.weight, norm.bias, *weights)  # type: ignore[no-untyped-call]
    return cast(Tensor, out)


class _AttentionSublayer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        source: Tensor | None,
        mask: PackedMask,
        heads: int,
        eps: float,
        dropout: tuple[int, int, int, int],
        norm: Tensor,
        norm_bias: Tensor,
        *maps: Tensor | None,
    ) -> Tensor:
        x, source = x.contiguous(), None if source is None else source.contiguous()
        weights, biases = cast(list[Tensor], list(maps[::2])), list(maps[1::2])
        ctx.without_bias = [each is None for each in biases]
        filled = [x.new_zeros(len(norm)) if each is None else each for each in biases]
        from_x = 3 if source is None else 1  # of query, key and value
        project, project_source = (
            torch.cat(weights[:from_x]),
            None if source is None else torch.cat(weights[1:3]),
        )
        ctx.mask, ctx.heads, ctx.eps, ctx.dropout = mask, heads, eps, dropout
        bias, source_bias = torch.cat(filled[:from_x]), torch.cat(filled[1:3])
        rows, width = x.shape
        normed, mixed, out = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
        projected, norms = x.new_empty(rows, from_x * width), x.new_empty(rows, heads)
        from_source = x.new_empty(0 if source is None else len(source), 2 * width)
        packed = [None if each is None else prepack(each) for each in (project, project_source, weights[3])]
        request = _sublayer_request(ctx, x, norm, norm_bias, source, packed, [bias, source_bias, filled[3]])
        library().look_there(
            ctypes.byref(request), *map(data_ptr, (normed, projected, from_source, mixed, norms, out))
        )
        ctx.save_for_backward(
            x,
            source,
            norm,
            norm_bias,
            project,
            project_source,
            weights[3],
            normed,
            projected,
            from_source,
            mixed,
            norms,
        )
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        saved = (None if each is None else each.contiguous() for each in ctx.saved_tensors)
        (
            x,
            source,
            norm,
            norm_bias,
            project,
            project_source,
            output,
            normed,
            projected,
            from_source,
            mixed,
            norms,
        ) = (cast(Any, each) for each in saved)
        gradient = upstream[0].contiguous()
        packed = [
            None if each is None else prepack(each, transposed=True)
            for each in (project, project_source, output)
        ]
        request = _sublayer_request(ctx, x, norm, norm_bias, source, packed, [None] * 3)
        of_x, of_out, of_mixed = (torch.empty_like(x) for _ in range(3))
        of_source = None if source is None else torch.empty_like(source)
        of_projected, of_from_source = torch.empty_like(projected), torch.empty_like(from_source)
        width = x.size(1)
        sums = x.new_empty(6 * width)
        library().look_back(
            ctypes.byref(request),
            *map(data_ptr, (gradient, projected, from_source, mixed, norms, of_x)),
            optional_ptr(of_source),
            *map(data_ptr, (of_out, of_mixed, of_projected, of_from_source, sums)),
        )
        of_output_bias, of_norm, of_norm_bias, *of_biases = sums.split(width)
        of_weights = list((of_projected.T @ normed).split(width))
        if source is not None:
            of_weights += (of_from_source.T @ source).split(width)
        of_weights.append(of_out.T @ mixed)
        of_maps = [
            each
            for weight, bias, without in zip(
                of_weights, [*of_biases, of_output_bias], ctx.without_bias, strict=True
            )
            for each in (weight, None if without else bias)
        ]
        return of_x, of_source, None, None, None, None, of_norm, of_norm_bias, *of_maps


def _sublayer_request(
    ctx: Any,
    x: Tensor,
    norm: Tensor,
    norm_bias: Tensor,
    source: Tensor | None,
    packed: list[Tensor | None],
    biases: list[Tensor | None],
) -> Looked:
    """The kernel's arguments; the packed weights must outlive the call."""
    size = x.size(1) // ctx.heads
    weight_threshold, weight_seed, threshold, seed = ctx.dropout
    mask: PackedMask = ctx.mask
    return Looked(
        Around(*map(data_ptr, (x, norm, norm_bias)), *x.shape, threshold, seed, ctx.eps),
        optional_ptr(source),
        *map(optional_ptr, (*packed, *biases)),
        0 if source is None else len(source),
        0,
        Asked(
            None, None, None, 0, 0, 0,
            data_ptr(mask.queries.offsets), data_ptr(mask.keys.offsets), len(mask.queries.lengths),
            ctx.heads, size, mask.causal, weight_threshold, size**-0.5, weight_seed, None, None,
        ),
    )  # fmt: skip


def top_of_rows(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The highest scores of each row (rows, vocabulary), their tokens, and log sum exp of all of them."""
    if not tensors_supported(scores):
        best, tokens = scores.topk(count)
        return best, tokens, scores.logsumexp(-1)
    if not 1 <= count <= scores.size(1):
        raise ValueError(f"{count} of {scores.size(1)} scores were asked for")
    rows = len(scores)
    best, tokens = scores.new_empty(rows, count), torch.empty(rows, count, dtype=torch.long)
    norms = scores.new_empty(rows)
    library().best_of_rows(data_ptr(scores), *scores.shape, count, *map(data_ptr, (best, tokens, norms)))
    return best, tokens, norms


def orthogonalize(x: Tensor, rounds: int, coefficients: tuple[float, float, float]) -> Tensor:
    """Newton-Schulz iterations on matrices (count, rows, columns), no taller than wide (Muon)."""
    if tensors_supported(x):
        x = x.clone()
        library().orthogonal(data_ptr(x), *x.shape, rounds, *coefficients)
        return x
    a, b, c = coefficients
    for _ in range(rounds):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x
