"""Hidden states by the engine where `plan` supports the model, else by the plain modules: chosen here alone.

Training objectives and loaded models call `run(model, *inputs)` instead of `model(*inputs)`, and the functions
below where they need hidden states. A model with hooks, replaced methods or anything else that the plan refuses
is called as it is.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.engine.plan import HOOKS, Plan, supports
from regard.engine.stack import StackSpec, run_stack
from regard.engine.token_reduction import reduce_packed
from regard.nn import Packed
from regard.nn.bert import (
    Bert,
    BertAnswerer,
    BertClassifier,
    BertPretrainer,
    BertReader,
    BertTagger,
    first_positions,
)
from regard.nn.gpt import Gpt, GptClassifier
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
    read = Packed.from_padded(source, source != model.padding)
    written = Packed.from_padded(target, target != model.padding)
    encoder, decoder = plan.stacks
    embedded = encoder.position.embed_at(model.source_embedding(read.values), read.positions)
    encoded, *_ = run_stack(StackSpec().add(encoder, encoder.dropout), embedded, read.offsets)
    embedded = decoder.position.embed_at(model.target_embedding(written.values), written.positions)
    hidden, *_ = run_stack(
        StackSpec().add(decoder, decoder.dropout),
        embedded,
        written.offsets,
        source=encoded,
        source_offsets=read.offsets,
    )
    tokens = (target != model.padding).flatten()
    if torch.equal(tokens.nonzero().squeeze(1), nonpad):
        return hidden
    return hidden.index_select(0, tokens.cumsum(0)[nonpad] - 1)


def gpt_hidden(gpt: Gpt, ids: Tensor) -> Packed:
    """Hidden states of a GPT, packed: ids (batch, length), padded at the end -> (tokens, d_model)."""
    nonpad = ids != gpt.padding
    plan = _plan(gpt, ids)
    if plan is None:
        return Packed.from_padded(gpt(ids), nonpad)
    packed, (stack,) = Packed.from_padded(ids, nonpad), plan.stacks
    embedded = stack.position.embed_at(gpt.embed(packed.values), packed.positions)
    hidden, *_ = run_stack(StackSpec().add(stack, stack.dropout), embedded, packed.offsets)
    return packed.like(hidden)


def bert_hidden(bert: Bert, ids: Tensor, segments: Tensor, positions: Tensor | None = None) -> Tensor:
    """`bert(ids, segments, positions=positions)`: (batch, length, d_model), or (positions, d_model)."""
    plan = _plan(bert, ids, segments)
    if plan is None:
        return cast(Tensor, bert(ids, segments, positions=positions))
    nonpad = ids != bert.padding
    packed, (stack,) = _bert_embedded(bert, ids, segments, nonpad), plan.stacks
    if bert.reduction is not None:
        reduced = reduce_packed(stack, packed, bert.reduction, first_only=False)
        hidden = packed.like(reduced.unmerged()).padded(0.0)
        return hidden if positions is None else hidden.flatten(0, 1).index_select(0, positions)
    spec = StackSpec().add(stack, stack.dropout)
    if positions is None:
        hidden, *_ = run_stack(spec, packed.values, packed.offsets)
        return packed.like(hidden).padded(0.0)
    # The last block computes no other token than these.
    chosen = torch.zeros(ids.numel(), dtype=torch.bool).index_fill(0, positions, True).view_as(ids)
    selected = chosen[nonpad].nonzero().squeeze(1).to(torch.int32)
    selected_offsets = torch.nn.functional.pad(chosen.sum(1).cumsum(0), (1, 0)).to(torch.int32)
    hidden, *_ = run_stack(
        spec, packed.values, packed.offsets, selected=selected, selected_offsets=selected_offsets
    )
    return hidden.index_select(0, (chosen.flatten().cumsum(0) - 1).index_select(0, positions))


def bert_first(bert: Bert, ids: Tensor, segments: Tensor) -> Tensor:
    """`bert.first(ids, segments)`: hidden states at [CLS], (batch, d_model)."""
    plan = _plan(bert, ids, segments)
    if plan is None:
        return bert.first(ids, segments)
    if bert.reduction is None:
        return bert_hidden(bert, ids, segments, first_positions(ids))
    packed = _bert_embedded(bert, ids, segments, ids != bert.padding)
    return reduce_packed(plan.stacks[0], packed, bert.reduction, first_only=True).x


def vit_pooled(vit: Vit, pixels: Tensor) -> Tensor:
    """`vit(pixels)`: one vector for each image, (images, d_model)."""
    if _plan(vit, pixels) is None:
        return cast(Tensor, vit(pixels))
    hidden = encode(vit, vit.embed(pixels), vit.reduction, first_only=vit.by_class)
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
        x = body.dropout(x)
        nonpad = torch.ones(batch, length, dtype=torch.bool, device=x.device)
        if reducer is None and not first_only:
            return cast(Tensor, body.blocks(x))
        none = Merging((0.0,)) if reducer is None else reducer
        tokens = reduce_tokens(body.blocks, x, nonpad, none, first_only=first_only)
        return tokens.x[:, 0] if first_only else tokens.means()
    (stack,) = plan.stacks
    packed = Packed(x.flatten(0, 1), torch.full((batch,), length))
    if reducer is not None:
        left = reduce_packed(stack, packed, reducer, first_only=first_only)
        if first_only:
            return left.x
        normed = left.x if isinstance(body, Bert) else body.norm(left.x)
        return replace(left, tokens=left.tokens.like(normed)).means()
    spec = StackSpec().add(stack, stack.dropout)
    if not first_only:
        hidden, *_ = run_stack(spec, packed.values, packed.offsets)
        return hidden.view(batch, length, -1)
    selected = torch.arange(batch, dtype=torch.int32)
    hidden, *_ = run_stack(
        spec,
        packed.values,
        packed.offsets,
        selected=selected * length,
        selected_offsets=torch.arange(batch + 1, dtype=torch.int32),
    )
    return hidden


def _plan(body: nn.Module, *inputs: Tensor) -> Plan | None:
    """The plan, if it supports hidden states and the inputs are on the CPU."""
    if any(each.device.type != "cpu" for each in inputs):
        return None
    return supports(body, "hidden states")


def _bert_embedded(bert: Bert, ids: Tensor, segments: Tensor, nonpad: Tensor) -> Packed:
    packed = Packed.from_padded(ids, nonpad)
    return packed.like(bert.embed(packed.values, segments[nonpad], packed.positions))


def _pretrained(model: BertPretrainer, ids: Tensor, segments: Tensor, positions: Tensor) -> Any:
    hidden = bert_hidden(model.bert, ids, segments, torch.cat([first_positions(ids), positions]))
    return model.heads(hidden, len(ids))


def last_tokens(hidden: Packed) -> Tensor:
    """The hidden state of each sequence's last token: (sequences, d_model)."""
    return hidden.values.index_select(0, hidden.offsets[1:].long() - 1)


def _pooled(model: BertReader, ids: Tensor, segments: Tensor) -> Tensor:
    body = model.bert
    if isinstance(body, Gpt):
        hidden = gpt_hidden(body, ids)
        return model.pool(hidden.padded(0.0), hidden.nonpad)
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
    GptClassifier: lambda model, ids, segments=None: model.classify(last_tokens(gpt_hidden(model.gpt, ids))),
    VitClassifier: lambda model, pixels: model.classify(vit_pooled(model.vit, pixels)),
}
"""For each known head its forward pass with a native body."""

FORWARDS = {kind: {name: value for name, value in vars(kind).items() if callable(value)} for kind in HEADS}
"""The heads' methods as they are written; a replaced one makes `run` call the model."""
