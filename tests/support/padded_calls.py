"""The engine's functions on padded batches, so that their results can be compared with the modules'."""

from typing import Any

from torch import Tensor, nn

from regard.engine.forward import bert_first, bert_hidden, bert_hidden_at, padding_of, run, run_tokens
from regard.nn import Packed
from regard.nn.bert import Bert, BertTagger


def pack(model: nn.Module, ids: Tensor, *others: Tensor) -> tuple[Any, ...]:
    """Ids without padding, and other tensors (batch, length) at the same tokens."""
    nonpad = ids != padding_of(model)
    return Packed.from_padded(ids, nonpad), *(each[nonpad] for each in others)


def hidden_of_bert(bert: Bert, ids: Tensor, segments: Tensor, positions: Tensor | None = None) -> Tensor:
    """(batch, length, d_model); with positions, counted through the padded batch: (positions, d_model)."""
    packed, packed_segments = pack(bert, ids, segments)
    if positions is None:
        return bert_hidden(bert, packed, packed_segments).padded(0.0)
    before = (ids != bert.padding).flatten().cumsum(0) - 1
    return bert_hidden_at(bert, packed, packed_segments, before[positions])


def first_of_bert(bert: Bert, ids: Tensor, segments: Tensor) -> Tensor:
    return bert_first(bert, *pack(bert, ids, segments))


def run_padded(model: nn.Module, ids: Tensor, *others: Tensor) -> Any:
    """`run` with the inputs of `model`: ids and segments padded, positions counted through the padded batch."""
    if ids.is_floating_point():
        return run(model, ids)
    segments, *positions = others
    packed, packed_segments = pack(model, ids, segments)
    before = (ids != padding_of(model)).flatten().cumsum(0) - 1
    inputs = packed, packed_segments, *(before[each] for each in positions)
    if isinstance(model, BertTagger):
        return run_tokens(model, *inputs).padded(0.0)
    return run(model, *inputs)
