"""Packed batches: the same tokens as padded ones, and where each of them stands."""

import pytest
import torch

from regard.nn import Packed

ROWS = [[5, 6, 7], [], [8], [9, 10]]


def test_rows_lie_one_after_another() -> None:
    packed = Packed.from_rows(ROWS)
    assert packed.values.tolist() == [5, 6, 7, 8, 9, 10]
    assert packed.lengths.tolist() == [3, 0, 1, 2]
    assert packed.offsets.tolist() == [0, 3, 3, 4, 6]
    assert packed.offsets.dtype == torch.int32
    assert packed.positions.tolist() == [0, 1, 2, 0, 0, 1]
    assert (packed.sequences, packed.max_length) == (4, 3)
    assert packed.nonpad.tolist() == [[True] * 3, [False] * 3, [True, False, False], [True, True, False]]


def test_padding_and_packing_undo_each_other() -> None:
    packed = Packed.from_rows(ROWS)
    padded = packed.padded(-1)
    assert padded.tolist() == [[5, 6, 7], [-1, -1, -1], [8, -1, -1], [9, 10, -1]]
    again = Packed.from_padded(padded, padded != -1)
    assert torch.equal(again.values, packed.values)
    assert torch.equal(again.lengths, packed.lengths)
    vectors = packed.like(torch.randn(6, 4))
    assert vectors.padded(0.0).shape == (4, 3, 4)
    assert torch.equal(vectors.padded(0.0)[packed.nonpad], vectors.values)
    assert not vectors.padded(0.0)[~packed.nonpad].any()


def test_gradients_pass_through_padding() -> None:
    values = torch.randn(6, 4, requires_grad=True)
    Packed.from_rows(ROWS).like(values).padded(1.0).sum().backward()
    assert torch.equal(values.grad, torch.ones(6, 4))


def test_no_sequences() -> None:
    packed = Packed.from_rows([])
    assert (packed.sequences, packed.max_length, packed.offsets.tolist()) == (0, 0, [0])
    assert packed.padded(0).shape == (0, 0)


def test_values_move_and_lengths_stay() -> None:
    moved = Packed.from_rows(ROWS).to("meta")
    assert moved.values.device.type == "meta"
    assert moved.lengths.device.type == "cpu"
    assert moved.offsets.device.type == moved.positions.device.type == moved.nonpad.device.type == "meta"


@pytest.mark.parametrize("lengths", [[3, 2], [3, 4], [7, -1]])
def test_lengths_that_do_not_fit_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match=f"the lengths add up to {sum(lengths)}, but there are 6 tokens"):
        Packed(torch.arange(6), torch.tensor(lengths))


@pytest.mark.parametrize(
    "lengths", [torch.tensor([6], dtype=torch.int32), torch.tensor(6), torch.tensor([6.0])]
)
def test_lengths_of_another_kind_are_refused(lengths: torch.Tensor) -> None:
    with pytest.raises(TypeError, match=r"lengths are \(sequences,\) int64 on the CPU"):
        Packed(torch.arange(6), lengths)


def test_padding_before_a_token_is_refused() -> None:
    ids = torch.tensor([[1, 0, 2], [0, 1, 1]])
    with pytest.raises(ValueError, match="at the end of a sequence only"):
        Packed.from_padded(ids, ids != 0)
