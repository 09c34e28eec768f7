"""Packed batches: round trips with padded ones, and what is refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.nn import Packed

quick = settings(max_examples=30, deadline=None, derandomize=True)


def packed(*lengths: int, size: int = 3) -> Packed:
    values = torch.arange(float(sum(lengths) * size)).view(-1, size)
    return Packed(values, torch.tensor(lengths, dtype=torch.int64))


@quick
@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=6), fill=st.sampled_from([0.0, -1.0, 7.5]))
def test_padding_and_packing_again_round_trips(lengths: list[int], fill: float) -> None:
    batch = packed(*lengths)
    padded = batch.padded(fill)
    assert padded.shape == (len(lengths), max(lengths), 3)
    start = 0
    for row, length in zip(padded, lengths, strict=True):
        assert torch.equal(row[:length], batch.values[start : start + length])
        assert (row[length:] == fill).all()
        start += length
    again = Packed.from_padded(padded, batch.nonpad)
    assert torch.equal(again.values, batch.values)
    assert torch.equal(again.lengths, batch.lengths)


def test_offsets_positions_and_sizes() -> None:
    batch = packed(3, 0, 2)
    assert batch.sequences == 3
    assert batch.max_length == 3
    assert batch.offsets.tolist() == [0, 3, 3, 5]
    assert batch.offsets.dtype == torch.int32
    assert batch.positions.tolist() == [0, 1, 2, 0, 1]
    assert batch.nonpad.tolist() == [[True] * 3, [False] * 3, [True, True, False]]


def test_no_sequences() -> None:
    batch = Packed(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))
    assert (batch.sequences, batch.max_length) == (0, 0)
    assert batch.offsets.tolist() == [0]
    assert batch.padded(1.0).shape == (0, 0, 4)


def test_ids_from_lists() -> None:
    batch = Packed.from_rows([[5, 6, 7], [8], []])
    assert batch.values.tolist() == [5, 6, 7, 8]
    assert batch.lengths.tolist() == [3, 1, 0]
    assert batch.padded(2).tolist() == [[5, 6, 7], [8, 2, 2], [2, 2, 2]]


def test_gradients_pass_both_ways() -> None:
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    nonpad = torch.tensor([[True, True, False], [True, True, True]])

    def round_trip(x: Tensor) -> Tensor:
        return Packed.from_padded(x, nonpad).padded(0.0)

    assert torch.autograd.gradcheck(round_trip, (x,))
    round_trip(x).sum().backward()
    assert torch.equal(x.grad, nonpad.unsqueeze(2).expand(2, 3, 4).double())


def test_other_values_of_the_same_sequences() -> None:
    batch = packed(2, 1)
    other = batch.like(torch.zeros(3))
    assert other.values.shape == (3,)
    assert other.lengths is batch.lengths
    with pytest.raises(ValueError, match="add up to 3, but there are 4 tokens"):
        batch.like(torch.zeros(4))
    moved = batch.to("meta")
    assert moved.values.device.type == moved.offsets.device.type == "meta"
    assert moved.lengths.device.type == "cpu"


@pytest.mark.parametrize("lengths", [[2, 2], [5], [], [4, -1]], ids=str)
def test_lengths_that_do_not_fit_the_tokens_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="the lengths add up to"):
        Packed(torch.zeros(3, 2), torch.tensor(lengths, dtype=torch.int64))


@pytest.mark.parametrize(
    "lengths",
    [torch.tensor([3], dtype=torch.int32), torch.tensor([3.0]), torch.tensor([[3]]), torch.tensor(3)],
    ids=["int32", "float", "two axes", "no axis"],
)
def test_lengths_of_another_kind_are_refused(lengths: Tensor) -> None:
    with pytest.raises(TypeError, match=r"lengths are \(sequences,\) int64 on the CPU"):
        Packed(torch.zeros(3, 2), lengths)


def test_padding_before_a_token_is_refused() -> None:
    with pytest.raises(ValueError, match="at the end of a sequence only"):
        Packed.from_padded(torch.zeros(1, 3), torch.tensor([[True, False, True]]))
