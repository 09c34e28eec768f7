"""The engine's functions on padded batches, for comparison with the modules."""

from typing import Any

from torch import Tensor, nn

from regard.engine.forward import bert_first, bert_hidden, bert_hidden_at, padding_of, run, run_tokens
from regard.nn import Packed
from regard.nn.bert import Bert, BertTagger


def pack(model: nn.Module, ids: Tensor, *others: Tensor) -> tuple[Any, ...]:
    """Packs ids, and further tensors (batch, length) at the same tokens."""
    nonpad = ids != padding_of(model)
    return Packed.from_padded(ids, nonpad), *(tensor[nonpad] for tensor in others)


def hidden_of_bert(bert: Bert, ids: Tensor, segments: Tensor, positions: Tensor | None = None) -> Tensor:
    """Hidden states (batch, length, d_model), or (positions, d_model) at positions in the flat padded batch."""
    packed, packed_segments = pack(bert, ids, segments)
    if positions is None:
        return bert_hidden(bert, packed, packed_segments).padded(0.0)
    packed_index = (ids != bert.padding).flatten().cumsum(0) - 1
    return bert_hidden_at(bert, packed, packed_segments, packed_index[positions])


def first_of_bert(bert: Bert, ids: Tensor, segments: Tensor) -> Tensor:
    return bert_first(bert, *pack(bert, ids, segments))


def run_padded(model: nn.Module, ids: Tensor, *others: Tensor) -> Any:
    """`run` with padded ids and segments, and positions in the flat padded batch."""
    if ids.is_floating_point():
        return run(model, ids)
    segments, *positions = others
    packed, packed_segments = pack(model, ids, segments)
    packed_index = (ids != padding_of(model)).flatten().cumsum(0) - 1
    inputs = packed, packed_segments, *(packed_index[position] for position in positions)
    if isinstance(model, BertTagger):
        return run_tokens(model, *inputs).padded(0.0)
    return run(model, *inputs)
