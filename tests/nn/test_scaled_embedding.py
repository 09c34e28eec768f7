"""Embeddings: the scale, the start, and the row for padding."""

import math

import pytest
import torch

from regard.nn import ScaledEmbedding


def test_a_vector_is_its_row_times_the_root_of_the_size():
    embedding = ScaledEmbedding(10, 16)
    ids = torch.tensor([[3, 9, 0], [1, 1, 2]])
    torch.testing.assert_close(embedding(ids), 4.0 * embedding.weight[ids], rtol=0, atol=1e-7)


@pytest.mark.parametrize("d_model", [16, 64, 512])
def test_rows_start_with_deviation_one_over_the_root_and_vectors_with_one(d_model):
    torch.manual_seed(0)
    embedding = ScaledEmbedding(4000, d_model)
    assert embedding.weight.std().item() == pytest.approx(1 / math.sqrt(d_model), rel=0.02)
    assert embedding.weight.mean().item() == pytest.approx(0, abs=0.01)
    assert embedding(torch.arange(4000)).std().item() == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("padding", [0, 3, 9])
def test_the_padding_row_is_zero_and_gets_no_gradient(padding):
    embedding = ScaledEmbedding(10, 4, padding=padding)
    ids = torch.tensor([[padding, 1, padding, 5]])
    out = embedding(ids)
    assert (out[ids == padding] == 0).all()
    out.sum().backward()
    assert (embedding.weight.grad[padding] == 0).all()
    assert (embedding.weight.grad[[1, 5]] == 2.0).all()  # sqrt(4), once each


def test_without_padding_every_row_is_trained():
    embedding = ScaledEmbedding(3, 4)
    embedding(torch.arange(3)).sum().backward()
    assert (embedding.weight.grad == 2.0).all()
    assert (embedding.weight.abs().sum(-1) > 0).all()


def test_the_table_is_the_one_parameter_so_that_it_can_be_shared():
    assert [(name, tuple(p.shape)) for name, p in ScaledEmbedding(7, 4).named_parameters()] == [
        ("weight", (7, 4))
    ]
