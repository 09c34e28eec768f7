"""Hidden states of packed batches, layer by layer through the kernels, with gradients.

`attach(model)` lets the BERT, GPT or ViT inside a model compute its forward pass here wherever `plan` supports
it as it is; otherwise, and for every other caller, the plain modules run.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.engine import ops
from regard.engine.plan import Plan, Stack, Sublayer, supports
from regard.engine.token_merging import NativeMerging
from regard.nn import (
    Apart,
    AttentionStats,
    EncoderStack,
    Ends,
    Merging,
    Position,
    ReducedTokens,
    Reducer,
    reduced,
)
from regard.nn.attention import join, split
from regard.nn.bert import Bert
from regard.nn.dropout import dropout_threshold
from regard.nn.feed_forward import ACTIVATIONS
from regard.nn.gpt import Gpt
from regard.nn.transformer import Transformer
from regard.nn.vit import Vit


def attach(model: nn.Module) -> nn.Module:
    """Let the native engine run the BERT, GPT or ViT inside this model; returns the model.

    The plan is asked at every forward pass, so later changes to the model are honoured.
    """
    for module in model.modules():
        if type(module) is Bert:
            module.accelerator = BertForward(module)
        elif type(module) is Gpt:
            module.accelerator = GptForward(module)
        elif type(module) is Vit:
            module.accelerator = VitForward(module)
    return model


def detach(model: nn.Module) -> nn.Module:
    """Undo `attach`: plain PyTorch runs the model; returns the model."""
    for module in model.modules():
        if isinstance(module, Bert | Gpt | Vit):
            module.accelerator = None
    return model


def transformer_rows(model: nn.Module, source: Tensor, target: Tensor, nonpad: Tensor) -> Tensor:
    """Hidden states of an encoder-decoder, teacher-forced, at the target positions that are not padding.

    Args:
        source: (batch, source) ids, padded at the end.
        target: (batch, target) ids, padded at the end.
        nonpad: (tokens,) positions counted through the batch.

    Returns:
        (tokens, d_model), by the native engine where the plan supports it, else by `model.rows`.
    """
    plan = supports(model, "hidden states")
    if plan is None or plan.kind != "encoder-decoder" or source.device.type != "cpu":
        return cast(Tensor, cast(Any, model).rows(source, target, nonpad))
    assert isinstance(model, Transformer)
    read, written = Ends.of(source, model.padding), Ends.of(target, model.padding)
    dropout = dropout_threshold(model.dropout.p) if model.dropout.training else 0
    embedded = model.source_embedding(source[read.real])
    encoder, decoder = (PackedStack(each) for each in plan.stacks)
    encoded = encoder(embedded, Apart(read, read), dropout)
    hidden = decoder(
        model.target_embedding(target[written.real]),
        Apart(written, written, causal=True),
        dropout,
        source=encoded,
        source_mask=Apart(written, read),
    )
    real = written.real.flatten()
    if torch.equal(real.nonzero().squeeze(1), nonpad):
        return hidden
    return hidden.index_select(0, real.cumsum(0)[nonpad] - 1)


def packed_blocks(body: Bert | Vit) -> "Sequence[PackedBlock] | EncoderStack":
    """The blocks of a BERT or a ViT for packed tokens: native where the plan supports them, else its own."""
    plan = supports(body, "hidden states")
    return body.blocks if plan is None else [PackedBlock(each) for each in plan.stacks[0].blocks]


class PackedStack:
    """The blocks of a stack on packed sequences (tokens, d_model)."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.blocks = [PackedBlock(each) for each in stack.blocks]

    def __call__(
        self,
        embedded: Tensor,
        mask: Apart,
        dropout: int,
        *,
        source: Tensor | None = None,
        source_mask: Apart | None = None,
    ) -> Tensor:
        """Embeddings (tokens, d_model), positions not yet added -> hidden states of the same shape."""
        x = self.stack.position.embed_at(embedded, mask.queries.places)
        x = ops.dropout_add(None, x, dropout)
        for block in self.blocks:
            x = block(x, mask=mask, source=source, source_mask=source_mask)
        return x if self.stack.norm is None else layer_norm(x, self.stack.norm)


class PackedBlock:
    """One block by the kernels; token reduction calls it as it does an `EncoderBlock`."""

    def __init__(self, sublayers: tuple[Sublayer, ...]) -> None:
        attention, *cross, network = sublayers
        self.self_attention = partial(attend, attention)
        self.cross_attention = partial(attend, cross[0]) if cross else None
        self.feed_forward = partial(feed_forward, network)

    def __call__(
        self,
        x: Tensor,
        *,
        mask: Apart,
        places: Tensor | None = None,
        bias: Tensor | None = None,
        source: Tensor | None = None,
        source_mask: Apart | None = None,
    ) -> Tensor:
        """x (tokens, d_model) -> the same shape; with `places` (some,) for these tokens only."""
        x = self.self_attention(x, mask=mask, bias=bias, places=places)
        if self.cross_attention is not None:
            assert source_mask is not None
            x = self.cross_attention(x, mask=source_mask, source=source)
        return self.feed_forward(x)


def attend(
    layer: Sublayer,
    x: Tensor,
    *,
    mask: Apart,
    source: Tensor | None = None,
    places: Tensor | None = None,
    bias: Tensor | None = None,
    noted: AttentionStats | None = None,
) -> Tensor:
    """The residual connection around self- or cross-attention; keys come from `source` where one is given."""
    rotary = type(layer.attention.position) is not Position
    plainly = places is None and bias is None and noted is None and not rotary
    if layer.pre_norm and plainly and torch.is_grad_enabled():
        return ops.attention_sublayer(
            x, layer.norm, layer.projections, layer.heads, mask, layer.inner_dropout, layer.dropout, source
        )
    query, key, value, output = layer.projections
    keys_from = _normed(layer, x) if layer.pre_norm else x
    if places is not None:
        x = x.index_select(0, places)
        asking = keys_from.index_select(0, places)
        (q,) = ops.linear(asking, (query,))
        k, v = ops.linear(keys_from, (key, value))
    elif source is not None:
        (q,) = ops.linear(keys_from, (query,))
        k, v = ops.linear(source, (key, value))
    else:
        q, k, v = ops.linear(keys_from, (query, key, value))
    q, k, v = (split(each, layer.heads) for each in (q, k, v))
    if rotary:
        positions = mask.keys.places
        k = layer.attention.position.rotate(k, positions)
        q = layer.attention.position.rotate(q, positions if places is None else positions[places])
    received = None
    if noted is not None:
        noted.keys = k.detach().mean(0)
        received = k.new_zeros(k.size(1))
    mixed = ops.varlen_attention(q, k, v, mask, layer.inner_dropout, bias=bias, received=received)
    if noted is not None and received is not None:
        noted.received = received / layer.heads
    (out,) = ops.linear(join(mixed), (output,))
    return _added(layer, x, out)


def feed_forward(layer: Sublayer, x: Tensor) -> Tensor:
    """The residual connection around the position-wise network."""
    network = layer.feed_forward
    fc1, fc2 = layer.projections
    biased = fc1.bias is not None and fc2.bias is not None
    if layer.pre_norm and layer.activation == "relu" and torch.is_grad_enabled() and biased:
        return ops.feed_forward_sublayer(x, layer.norm, fc1, fc2, layer.inner_dropout, layer.dropout)
    inside = _normed(layer, x) if layer.pre_norm else x
    if layer.activation == "relu" and fc1.bias is not None:
        wide = ops.linear_relu_dropout(inside, fc1, layer.inner_dropout)
    elif layer.activation == "gelu-tanh" and not layer.inner_dropout and fc1.bias is not None:
        wide = ops.linear_gelu(inside, fc1)
    else:
        gate = network.gate
        if gate is not None:
            gated, wide = ops.linear(inside, (gate, fc1))
            wide = functional.silu(gated) * wide
        else:
            (wide,) = ops.linear(inside, (fc1,))
            wide = ACTIVATIONS[layer.activation](wide)
        wide = ops.dropout_add(None, wide, layer.inner_dropout)
    (out,) = ops.linear(wide, (fc2,))
    return _added(layer, x, out)


def _normed(layer: Sublayer, x: Tensor) -> Tensor:
    return layer_norm(x, layer.norm)


def layer_norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    return functional.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def _added(layer: Sublayer, x: Tensor, out: Tensor) -> Tensor:
    x = ops.dropout_add(x, out, layer.dropout)
    return x if layer.pre_norm else _normed(layer, x)


def _plan(body: nn.Module, *inputs: Tensor) -> Plan | None:
    """The plan, if it supports hidden states and the inputs are on the CPU."""
    if any(each.device.type != "cpu" for each in inputs):
        return None
    return supports(body, "hidden states")


def reducer_for(blocks: "Sequence[PackedBlock] | EncoderStack", by: Reducer) -> Reducer:
    """The reducer for the blocks of `packed_blocks`: where they are native, merging is, too."""
    return NativeMerging(by) if type(by) is Merging and not isinstance(blocks, EncoderStack) else by


class GptForward:
    """`Gpt.rows` by the kernels."""

    def __init__(self, gpt: Gpt) -> None:
        self.gpt = gpt

    def rows(self, ids: Tensor, ends: Ends) -> Tensor | None:
        plan = _plan(self.gpt, ids)
        if plan is None:
            return None
        gpt = self.gpt
        dropout = dropout_threshold(gpt.dropout.p) if gpt.dropout.training else 0
        return PackedStack(plan.stacks[0])(gpt.embed(ids[ends.real]), Apart(ends, ends, causal=True), dropout)


class BertForward:
    """`Bert.forward` and `Bert.reduced` by the kernels; the last block computes only what is asked for."""

    def __init__(self, bert: Bert) -> None:
        self.bert = bert

    def hidden(self, ids: Tensor, segments: Tensor, places: Tensor | None) -> Tensor | None:
        plan = _plan(self.bert, ids, segments)
        if plan is None:
            return None
        ends = Ends.of(ids, self.bert.padding)
        x, mask = self._embedded(ids, segments, ends), Apart(ends, ends)
        *blocks, last = (PackedBlock(each) for each in plan.stacks[0].blocks)
        for block in blocks:
            x = block(x, mask=mask)
        if places is None:
            x = last(x, mask=mask)
            return x.new_zeros(*ids.shape, x.size(-1)).index_put((ends.real,), x)
        asked = torch.zeros(ids.numel(), dtype=torch.bool).index_fill(0, places, True).view_as(ids)
        chosen = asked[ends.real].nonzero().squeeze(1)
        x = last(x, mask=Apart(Ends(asked.sum(1)), ends), places=chosen)
        return x.index_select(0, (asked.flatten().cumsum(0) - 1).index_select(0, places))

    def reduced(self, ids: Tensor, segments: Tensor, ends: Ends, *, firsts: bool) -> ReducedTokens | None:
        plan = _plan(self.bert, ids, segments)
        if plan is None or self.bert.reduction is None:
            return None
        blocks = packed_blocks(self.bert)
        by = reducer_for(blocks, self.bert.reduction)
        return reduced(blocks, self._embedded(ids, segments, ends), ends, by, firsts=firsts)

    def _embedded(self, ids: Tensor, segments: Tensor, ends: Ends) -> Tensor:
        return self.bert.embedded(ids[ends.real], segments[ends.real], ends.places)


class VitForward:
    """`Vit.forward` and `Vit.reduced` by the kernels."""

    def __init__(self, vit: Vit) -> None:
        self.vit = vit

    def hidden(self, pixels: Tensor) -> Tensor | None:
        plan = _plan(self.vit, pixels)
        if plan is None:
            return None
        x = self.vit.embedded(pixels)
        images, tokens, _ = x.shape
        ends = Ends(torch.full((images,), tokens))
        x, mask = x.flatten(0, 1), Apart(ends, ends)
        *blocks, last = (PackedBlock(each) for each in plan.stacks[0].blocks)
        for block in blocks:
            x = block(x, mask=mask)
        if self.vit.class_embedding is None:
            x = self.vit.norm(last(x, mask=mask))
            return cast(Tensor, x.view(images, tokens, -1).mean(1))
        ones = Apart(Ends(torch.ones(images, dtype=torch.int64)), ends)
        return cast(Tensor, self.vit.norm(last(x, mask=ones, places=torch.arange(images) * tokens)))

    def reduced(self, pixels: Tensor, by: Reducer) -> ReducedTokens | None:
        plan = _plan(self.vit, pixels)
        if plan is None:
            return None
        x = self.vit.embedded(pixels)
        ends = Ends(torch.full((len(x),), x.size(1)))
        blocks = packed_blocks(self.vit)
        by_class = self.vit.class_embedding is not None
        return reduced(blocks, x.flatten(0, 1), ends, reducer_for(blocks, by), firsts=by_class)
