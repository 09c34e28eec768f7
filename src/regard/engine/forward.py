"""Forward passes of packed batches: by the native engine if `plan` supports the model, else by its modules.

Training objectives and loaded models call `run(model, ...)` instead of `model(...)`, and the functions below
for hidden states. A model that the plan refuses, for example because it has hooks or replaced methods, is
called as it is, with a padded batch (`padded_inputs`).
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
    BertTagger,
    TextEmbedder,
)
from regard.nn.gpt import Gpt, GptClassifier
from regard.nn.seq2seq import Seq2SeqModel, Trainable
from regard.nn.token_reduction import Merging, Pruning, reduce_tokens
from regard.nn.transformer import Transformer
from regard.nn.vit import Vit, VitClassifier

Inputs = Packed | Tensor
"""Packed ids, or a tensor: segments of the ids, positions among them, or pixels."""


def run(model: nn.Module, *inputs: Inputs) -> Any:
    """`model(*inputs)` on a packed batch; the body below a known head runs natively if the plan supports it.

    Args:
        model: Any module. Heads on a BERT, GPT or ViT are computed by PyTorch, their body natively.
        inputs: Pixels; or packed ids, then segments (tokens,), then positions among the packed tokens.

    Returns:
        The model's result: one row for each text or image. For a result at each token see `run_tokens`.
    """
    forward = native_forward(model, *inputs)
    return model(*padded_inputs(model, *inputs)) if forward is None else forward(model, *inputs)


def run_tokens(model: nn.Module, ids: Packed, *inputs: Tensor) -> Packed:
    """As `run`, for a model with a result at each token, such as a tagger; the result is packed."""
    forward = native_forward(model, ids, *inputs)
    if forward is None:
        return ids.repacked(model(*padded_inputs(model, ids, *inputs)))
    return ids.like(forward(model, ids, *inputs))


def native_forward(model: nn.Module, *inputs: Inputs) -> Callable[..., Any] | None:
    """The forward pass of a head with a native body; None if the plan refuses it or the head was modified."""
    forward = HEADS.get(type(model))
    if forward is None or is_modified(model) or _plan(body_of(model), *inputs) is None:
        return None
    return forward


def is_modified(model: nn.Module) -> bool:
    """Whether a call of the module differs from its class's forward: hooks, replaced methods, compilation."""
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


def padded_inputs(model: nn.Module, *inputs: Inputs) -> tuple[Tensor, ...]:
    """The inputs of `run` for plain modules.

    Returns:
        Ids and segments (sequences, length), padded at the end; positions are indices into the flattened batch.

    Raises:
        TypeError: The module contains no BERT, GPT or sequence-to-sequence model, so its padding id is unknown.
    """
    ids, *rest = inputs
    if not isinstance(ids, Packed):
        return cast(tuple[Tensor, ...], inputs)
    padded = [ids.padded(padding_of(model))]
    if rest:
        padded.append(ids.like(cast(Tensor, rest[0])).padded(0))
    return *padded, *(ids.padded_positions[cast(Tensor, positions)] for positions in rest[1:])


def padding_of(model: nn.Module) -> int:
    """The padding id of the model in a module, which may wrap it."""
    for module in model.modules():
        if isinstance(module, Bert | Gpt | Seq2SeqModel):
            return module.padding
    raise TypeError(
        f"{type(model).__name__} contains no BERT, GPT or sequence-to-sequence model: its padding id is unknown"
    )


def seq2seq_hidden(model: nn.Module, source: Packed, target: Packed) -> Packed:
    """Hidden states of a sequence-to-sequence model, teacher-forced, at each token of the target.

    Args:
        source: Packed ids.
        target: Packed ids of as many sequences.

    Returns:
        (target tokens, d_model).
    """
    plan = _plan(model, source, target)
    if plan is None or plan.kind != "encoder-decoder":
        padding = padding_of(model)
        return target.repacked(cast(Trainable, model).hidden(source.padded(padding), target.padded(padding)))
    assert isinstance(model, Transformer)
    encoder, decoder = plan.stacks
    embedded = encoder.position.embed_at(model.source_embedding(source.values), source.positions)
    encoded, *_ = run_stack(StackSpec().add(encoder, encoder.dropout), embedded, source.offsets)
    embedded = decoder.position.embed_at(model.target_embedding(target.values), target.positions)
    spec = StackSpec().add(decoder, decoder.dropout)
    hidden, *_ = run_stack(spec, embedded, target.offsets, source=encoded, source_offsets=source.offsets)
    return target.like(hidden)


def gpt_hidden(gpt: Gpt, ids: Packed) -> Packed:
    """Hidden states of a GPT: ids (tokens,) -> (tokens, d_model)."""
    plan = _plan(gpt, ids)
    if plan is None:
        return ids.repacked(gpt(*padded_inputs(gpt, ids)))
    (stack,) = plan.stacks
    embedded = stack.position.embed_at(gpt.embed(ids.values), ids.positions)
    hidden, *_ = run_stack(StackSpec().add(stack, stack.dropout), embedded, ids.offsets)
    return ids.like(hidden)


def bert_hidden(bert: Bert, ids: Packed, segments: Tensor) -> Packed:
    """Hidden states of a BERT: ids and segments (tokens,) -> (tokens, d_model)."""
    plan = _plan(bert, ids, segments)
    if plan is None:
        return ids.repacked(bert(*padded_inputs(bert, ids, segments)))
    embedded, (stack,) = _bert_embedded(bert, ids, segments), plan.stacks
    if bert.reduction is not None:
        return ids.like(reduce_packed(stack, embedded, bert.reduction, first_only=False).unmerged())
    hidden, *_ = run_stack(StackSpec().add(stack, stack.dropout), embedded.values, ids.offsets)
    return ids.like(hidden)


def bert_hidden_at(bert: Bert, ids: Packed, segments: Tensor, positions: Tensor) -> Tensor:
    """Hidden states of a BERT at the packed tokens `positions` (positions,) only: (positions, d_model)."""
    plan = _plan(bert, ids, segments, positions)
    if plan is None:
        padded_ids, padded_segments, at = padded_inputs(bert, ids, segments, positions)
        return cast(Tensor, bert(padded_ids, padded_segments, positions=at))
    if bert.reduction is not None:
        return bert_hidden(bert, ids, segments).values.index_select(0, positions)
    # The last block computes only these tokens.
    chosen = torch.zeros(len(ids.values), dtype=torch.bool).index_fill(0, positions, True)
    before = nn.functional.pad(chosen.cumsum(0), (1, 0))
    hidden, *_ = run_stack(
        StackSpec().add(plan.stacks[0], plan.stacks[0].dropout),
        _bert_embedded(bert, ids, segments).values,
        ids.offsets,
        selected=chosen.nonzero().squeeze(1).to(torch.int32),
        selected_offsets=before.index_select(0, ids.offsets).to(torch.int32),
    )
    return hidden.index_select(0, before.index_select(0, positions))


def bert_first(bert: Bert, ids: Packed, segments: Tensor) -> Tensor:
    """Hidden states of a BERT at [CLS], the first token of each text: (texts, d_model)."""
    plan = _plan(bert, ids, segments)
    if plan is None:
        return bert.first(*padded_inputs(bert, ids, segments))
    if bert.reduction is None:
        return bert_hidden_at(bert, ids, segments, ids.offsets[:-1].long())
    return reduce_packed(plan.stacks[0], _bert_embedded(bert, ids, segments), bert.reduction, first_only=True).x


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
        first_only: Compute only the hidden state of the first token.

    Returns:
        (batch, length, d_model); with `first_only` (batch, d_model); with a reducer but without `first_only`
        the mean of the remaining tokens (batch, d_model), for a ViT after the final norm.
    """
    batch, length, _ = x.shape
    plan = _plan(body, x)
    if plan is None:
        x = body.dropout(x)
        nonpad = torch.ones(batch, length, dtype=torch.bool, device=x.device)
        if reducer is None and not first_only:
            return cast(Tensor, body.blocks(x))
        reducer = Merging((0.0,)) if reducer is None else reducer
        tokens = reduce_tokens(body.blocks, x, nonpad, reducer, first_only=first_only)
        return tokens.x[:, 0] if first_only else tokens.means()
    (stack,) = plan.stacks
    packed = Packed(x.flatten(0, 1), torch.full((batch,), length))
    if reducer is not None:
        remaining = reduce_packed(stack, packed, reducer, first_only=first_only)
        if first_only:
            return remaining.x
        normed = remaining.x if isinstance(body, Bert) else body.norm(remaining.x)
        return replace(remaining, tokens=remaining.tokens.like(normed)).means()
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


def _plan(body: nn.Module, *inputs: Inputs) -> Plan | None:
    """The plan if it supports hidden states and all inputs are on the CPU, else None."""
    if any(tensor.device.type != "cpu" for tensor in inputs):
        return None
    return supports(body, "hidden states")


def _bert_embedded(bert: Bert, ids: Packed, segments: Tensor) -> Packed:
    return ids.like(bert.embed(ids.values, segments, ids.positions))


def last_tokens(hidden: Packed) -> Tensor:
    """The hidden state of each sequence's last token: (sequences, d_model)."""
    return hidden.values.index_select(0, hidden.offsets[1:].long() - 1)


def _pretrained(model: BertPretrainer, ids: Packed, segments: Tensor, positions: Tensor) -> Any:
    hidden = bert_hidden_at(model.bert, ids, segments, torch.cat([ids.offsets[:-1].long(), positions]))
    return model.heads(hidden, ids.sequences)


def _spans(model: BertAnswerer, ids: Packed, segments: Tensor) -> Tensor:
    scores = model.edges(bert_hidden(model.bert, ids, segments).values)
    return ids.like(scores).padded(torch.finfo(scores.dtype).min).transpose(1, 2)


def _pooled(model: TextEmbedder, ids: Packed, segments: Tensor) -> Tensor:
    body = model.bert
    if isinstance(body, Gpt):
        hidden = gpt_hidden(body, ids)
    else:
        assert isinstance(body, Bert)
        hidden = bert_hidden(body, ids, segments)
    match model.pooling:
        case "cls":
            return hidden.values.index_select(0, hidden.offsets[:-1])
        case "mean" | "max":
            return torch.segment_reduce(hidden.values, model.pooling, lengths=hidden.lengths)


HEADS: dict[type[nn.Module], Callable[..., Any]] = {
    BertClassifier: lambda model, ids, segments: model.classify(bert_first(model.bert, ids, segments)),
    BertTagger: lambda model, ids, segments: model.tag(bert_hidden(model.bert, ids, segments).values),
    BertAnswerer: _spans,
    BertPretrainer: _pretrained,
    TextEmbedder: _pooled,
    GptClassifier: lambda model, ids, segments=None: model.classify(last_tokens(gpt_hidden(model.gpt, ids))),
    VitClassifier: lambda model, pixels: model.classify(vit_pooled(model.vit, pixels)),
}
"""For each known head its forward pass with a native body."""

FORWARDS = {kind: {name: value for name, value in vars(kind).items() if callable(value)} for kind in HEADS}
"""The original methods of the heads; if one was replaced, `run` calls the model."""
