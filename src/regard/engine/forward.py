"""Hidden states by the engine where `plan` supports the model, else by the plain modules: chosen here alone.

Training objectives and loaded models call `run(model, *inputs)` instead of `model(*inputs)`, and the functions
below where they need hidden states. A model with hooks, replaced methods or anything else that the plan refuses
is called as it is.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.engine import ops
from regard.engine.pack import PackedMask, SequenceOffsets
from regard.engine.plan import HOOKS, Plan, Stack, Sublayer, dropout_threshold, supports
from regard.engine.token_reduction import reduce_packed
from regard.nn.attention import AttentionStats, join, split
from regard.nn.bert import (
    Bert,
    BertAnswerer,
    BertClassifier,
    BertPretrainer,
    BertReader,
    BertTagger,
    first_positions,
)
from regard.nn.feed_forward import ACTIVATIONS
from regard.nn.gpt import Gpt, GptClassifier
from regard.nn.positions import Position
from regard.nn.seq2seq import Trainable
from regard.nn.token_reduction import Merging, Pruning, reduce_tokens
from regard.nn.transformer import Transformer
from regard.nn.vit import Vit, VitClassifier


def run(model: nn.Module, *inputs: Tensor) -> Any:
    """`model(*inputs)`; the body of a known head natively where the plan supports it.

    Args:
        model: Any module. Heads of BERT, GPT and ViT are split into body and head, unless they are changed.
        inputs: As for its forward pass.
    """
    split_forward = HEADS.get(type(model))
    if split_forward is None or is_changed(model) or _plan(body_of(model), *inputs) is None:
        return model(*inputs)
    return split_forward(cast(Any, model), *inputs)


def is_changed(model: nn.Module) -> bool:
    """Whether calling a module is not the same as its class's forward: hooks, replaced methods, compilation."""
    kind = type(model)
    return (
        any(getattr(model, hooks) for hooks in HOOKS)
        or model._compiled_call_impl is not None
        or any(callable(value) and callable(getattr(kind, name, None)) for name, value in vars(model).items())
        or any(FORWARDS[kind][name] is not getattr(kind, name, None) for name in FORWARDS.get(kind, {}))
    )


def body_of(model: nn.Module) -> nn.Module:
    """The BERT, GPT or ViT below a head."""
    return next(body for name, body in model.named_children() if name in ("bert", "gpt", "vit"))


def transformer_rows(model: nn.Module, source: Tensor, target: Tensor, nonpad: Tensor) -> Tensor:
    """Hidden states of an encoder-decoder, teacher-forced, at the target positions that are not padding.

    Args:
        source: (batch, source) ids, padded at the end.
        target: (batch, target) ids, padded at the end.
        nonpad: (tokens,) positions counted through the batch.

    Returns:
        (tokens, d_model).
    """
    plan = _plan(model, source, target)
    if plan is None or plan.kind != "encoder-decoder":
        return cast(Trainable, model).hidden(source, target).flatten(0, 1).index_select(0, nonpad)
    assert isinstance(model, Transformer)
    read = SequenceOffsets.from_padded(source, model.padding)
    written = SequenceOffsets.from_padded(target, model.padding)
    dropout = _embedding_dropout(model.dropout)
    embedded = model.source_embedding(source[read.nonpad])
    encoder, decoder = (PackedStack(each) for each in plan.stacks)
    encoded = encoder(embedded, PackedMask(read, read), dropout)
    hidden = decoder(
        model.target_embedding(target[written.nonpad]),
        PackedMask(written, written, causal=True),
        dropout,
        source=encoded,
        source_mask=PackedMask(written, read),
    )
    tokens = written.nonpad.flatten()
    if torch.equal(tokens.nonzero().squeeze(1), nonpad):
        return hidden
    return hidden.index_select(0, tokens.cumsum(0)[nonpad] - 1)


def gpt_hidden(gpt: Gpt, ids: Tensor) -> tuple[Tensor, SequenceOffsets]:
    """Hidden states of a GPT, packed.

    Args:
        ids: (batch, length), padded at the end.

    Returns:
        (tokens, d_model), and where the sequences lie.
    """
    sequences = SequenceOffsets.from_padded(ids, gpt.padding)
    plan = _plan(gpt, ids)
    if plan is None:
        return cast(Tensor, gpt(ids))[sequences.nonpad], sequences
    mask = PackedMask(sequences, sequences, causal=True)
    embedded = gpt.embed(ids[sequences.nonpad])
    return PackedStack(plan.stacks[0])(embedded, mask, _embedding_dropout(gpt.dropout)), sequences


def bert_hidden(bert: Bert, ids: Tensor, segments: Tensor, positions: Tensor | None = None) -> Tensor:
    """`bert(ids, segments, positions=positions)`: (batch, length, d_model), or (positions, d_model)."""
    plan = _plan(bert, ids, segments)
    if plan is None:
        return cast(Tensor, bert(ids, segments, positions=positions))
    sequences = SequenceOffsets.from_padded(ids, bert.padding)
    x, mask = _bert_embedded(bert, ids, segments, sequences), PackedMask(sequences, sequences)
    blocks = [PackedBlock(each) for each in plan.stacks[0].blocks]
    if bert.reduction is not None:
        tokens = reduce_packed(blocks, x, sequences, bert.reduction, first_only=False)
        hidden = sequences.padded(tokens.unmerged())
        return hidden if positions is None else hidden.flatten(0, 1).index_select(0, positions)
    *blocks, last = blocks
    for block in blocks:
        x = block(x, mask=mask)
    if positions is None:
        return sequences.padded(last(x, mask=mask))
    # The last block computes no other token than these.
    chosen = torch.zeros(ids.numel(), dtype=torch.bool).index_fill(0, positions, True).view_as(ids)
    queries = chosen[sequences.nonpad].nonzero().squeeze(1)
    x = last(x, mask=PackedMask(SequenceOffsets(chosen.sum(1)), sequences), queries=queries)
    return x.index_select(0, (chosen.flatten().cumsum(0) - 1).index_select(0, positions))


def bert_first(bert: Bert, ids: Tensor, segments: Tensor) -> Tensor:
    """`bert.first(ids, segments)`: hidden states at [CLS], (batch, d_model)."""
    plan = _plan(bert, ids, segments)
    if plan is None:
        return bert.first(ids, segments)
    if bert.reduction is None:
        return bert_hidden(bert, ids, segments, first_positions(ids))
    sequences = SequenceOffsets.from_padded(ids, bert.padding)
    blocks = [PackedBlock(each) for each in plan.stacks[0].blocks]
    x = _bert_embedded(bert, ids, segments, sequences)
    return reduce_packed(blocks, x, sequences, bert.reduction, first_only=True).x


def vit_pooled(vit: Vit, pixels: Tensor) -> Tensor:
    """`vit(pixels)`: one vector for each image, (images, d_model)."""
    if _plan(vit, pixels) is None:
        return cast(Tensor, vit(pixels))
    x = vit.embed(pixels)
    hidden = encode(vit, x, vit.reduction, first_only=vit.by_class)
    if vit.by_class:
        return cast(Tensor, vit.norm(hidden))
    return hidden if vit.reduction is not None else cast(Tensor, vit.norm(hidden).mean(1))


def encode(body: Bert | Vit, x: Tensor, reducer: Merging | Pruning | None, *, first_only: bool) -> Tensor:
    """The blocks of a BERT or a ViT over embedded sequences of equal length.

    Args:
        x: (batch, length, d_model).
        reducer: Token reduction, or None.
        first_only: Compute only the first token's result: (batch, d_model).

    Returns:
        (batch, length, d_model), or (batch, d_model) of the first tokens, or, for a ViT with a reducer but
        without a class token, the normalised mean of the remaining tokens.
    """
    batch, length, _ = x.shape
    plan = _plan(body, x)
    if plan is None:
        nonpad = torch.ones(batch, length, dtype=torch.bool, device=x.device)
        if reducer is None and not first_only:
            return cast(Tensor, body.blocks(x))
        none = Merging((0.0,)) if reducer is None else reducer
        tokens = reduce_tokens(body.blocks, x, nonpad, none, first_only=first_only)
        return tokens.x[:, 0] if first_only else tokens.means()
    sequences = SequenceOffsets(torch.full((batch,), length))
    blocks = [PackedBlock(each) for each in plan.stacks[0].blocks]
    x = x.flatten(0, 1)
    if reducer is not None or first_only:
        none = Merging((0.0,)) if reducer is None else reducer
        packed = reduce_packed(blocks, x, sequences, none, first_only=first_only)
        if first_only:
            return packed.x
        normed = packed.x if isinstance(body, Bert) else body.norm(packed.x)
        return type(packed)(normed, packed.sequences, packed.size).means()
    for block in blocks:
        x = block(x, mask=PackedMask(sequences, sequences))
    return x.view(batch, length, -1)


class PackedStack:
    """The blocks of a stack on packed sequences (tokens, d_model)."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.blocks = [PackedBlock(each) for each in stack.blocks]

    def __call__(
        self,
        embedded: Tensor,
        mask: PackedMask,
        dropout: int,
        *,
        source: Tensor | None = None,
        source_mask: PackedMask | None = None,
    ) -> Tensor:
        """Embeddings (tokens, d_model), positions not yet added -> hidden states of the same shape."""
        x = self.stack.position.embed_at(embedded, mask.queries.positions)
        x = ops.dropout_add(None, x, dropout)
        for block in self.blocks:
            x = block(x, mask=mask, source=source, source_mask=source_mask)
        return x if self.stack.norm is None else layer_norm(x, self.stack.norm)


class PackedBlock:
    """One block by the kernels."""

    def __init__(self, sublayers: tuple[Sublayer, ...]) -> None:
        attention, *cross, network = sublayers
        self.self_attention = partial(attend, attention)
        self.cross_attention = partial(attend, cross[0]) if cross else None
        self.feed_forward = partial(feed_forward, network)

    def __call__(
        self,
        x: Tensor,
        *,
        mask: PackedMask,
        queries: Tensor | None = None,
        bias: Tensor | None = None,
        source: Tensor | None = None,
        source_mask: PackedMask | None = None,
    ) -> Tensor:
        """x (tokens, d_model) -> the same shape; with `queries` (queries,) for these tokens only."""
        x = self.self_attention(x, mask=mask, bias=bias, queries=queries)
        if self.cross_attention is not None:
            assert source_mask is not None
            x = self.cross_attention(x, mask=source_mask, source=source)
        return self.feed_forward(x)


def attend(
    layer: Sublayer,
    x: Tensor,
    *,
    mask: PackedMask,
    source: Tensor | None = None,
    queries: Tensor | None = None,
    bias: Tensor | None = None,
    stats: AttentionStats | None = None,
) -> Tensor:
    """The residual connection around self- or cross-attention; keys come from `source` where one is given."""
    rotary = type(layer.attention.position) is not Position
    plainly = queries is None and bias is None and stats is None and not rotary
    if layer.pre_norm and plainly and torch.is_grad_enabled():
        return ops.attention_sublayer(
            x, layer.norm, layer.projections, layer.heads, mask, layer.inner_dropout, layer.dropout, source
        )
    query, key, value, output = layer.projections
    keys_from = _normed(layer, x) if layer.pre_norm else x
    if queries is not None:
        x = x.index_select(0, queries)
        (q,) = ops.linear(keys_from.index_select(0, queries), (query,))
        k, v = ops.linear(keys_from, (key, value))
    elif source is not None:
        (q,) = ops.linear(keys_from, (query,))
        k, v = ops.linear(source, (key, value))
    else:
        q, k, v = ops.linear(keys_from, (query, key, value))
    q, k, v = (split(each, layer.heads) for each in (q, k, v))
    if rotary:
        positions = mask.keys.positions
        k = layer.attention.position.rotate(k, positions)
        q = layer.attention.position.rotate(q, positions if queries is None else positions[queries])
    received = None
    if stats is not None:
        stats.keys = k.detach().mean(0)
        received = k.new_zeros(k.size(1))
    mixed = ops.varlen_attention(q, k, v, mask, layer.inner_dropout, bias=bias, received=received)
    if stats is not None and received is not None:
        stats.received = received / layer.heads
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


def _embedding_dropout(dropout: nn.Dropout) -> int:
    return dropout_threshold(dropout.p) if dropout.training else 0


def _bert_embedded(bert: Bert, ids: Tensor, segments: Tensor, sequences: SequenceOffsets) -> Tensor:
    return bert.embed(ids[sequences.nonpad], segments[sequences.nonpad], sequences.positions)


def _pretrained(model: BertPretrainer, ids: Tensor, segments: Tensor, positions: Tensor) -> Any:
    hidden = bert_hidden(model.bert, ids, segments, torch.cat([first_positions(ids), positions]))
    return model.heads(hidden, len(ids))


def _gpt_classified(model: GptClassifier, ids: Tensor, segments: Tensor | None = None) -> Tensor:
    hidden, sequences = gpt_hidden(model.gpt, ids)
    return model.classify(hidden.index_select(0, sequences.offsets[1:].long() - 1))


def _pooled(model: BertReader, ids: Tensor, segments: Tensor) -> Tensor:
    body = model.bert
    if isinstance(body, Gpt):
        hidden, sequences = gpt_hidden(body, ids)
        return model.pool(sequences.padded(hidden), sequences.nonpad)
    assert isinstance(body, Bert)
    return model.pool(bert_hidden(body, ids, segments), ids != body.padding)


HEADS: dict[type[nn.Module], Callable[..., Any]] = {
    BertClassifier: lambda model, ids, segments: model.classify(bert_first(model.bert, ids, segments)),
    BertTagger: lambda model, ids, segments: model.tag(bert_hidden(model.bert, ids, segments)),
    BertAnswerer: lambda model, ids, segments: model.spans(
        bert_hidden(model.bert, ids, segments), ids != model.bert.padding
    ),
    BertPretrainer: _pretrained,
    BertReader: _pooled,
    GptClassifier: _gpt_classified,
    VitClassifier: lambda model, pixels: model.classify(vit_pooled(model.vit, pixels)),
}
"""For each known head its forward pass with a native body."""

FORWARDS = {kind: {name: value for name, value in vars(kind).items() if callable(value)} for kind in HEADS}
"""The heads' methods as they are written; a replaced one makes `run` call the model."""
