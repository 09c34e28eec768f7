"""The claims of `regard show positions`: three equal ways, counting in bits, similarity by distance."""

import pytest
import torch

from regard.lessons import positions
from regard.nn.positions import sinusoids


@pytest.mark.parametrize(("length", "d_model"), [(2, 2), (64, 64), (1024, 130)])
def test_three_ways_agree(length: int, d_model: int) -> None:
    result = positions.compute(length, d_model)
    assert result.loop_difference < 1e-12
    assert result.rotation_difference < 1e-12


def test_the_encoding_is_the_one_models_use() -> None:
    assert torch.equal(positions.compute(50, 16).encoding, sinusoids(50, 16, torch.float64))


def test_bits_spell_the_position() -> None:
    bits = positions.binary_digits(100)
    assert bits.shape == (100, 7)
    assert torch.equal((bits << torch.arange(7)).sum(1), torch.arange(100))


def test_similarity_depends_on_the_distance_only() -> None:
    result = positions.compute(200, 64)
    assert result.spread < 1e-12
    assert result.similarity[0] == pytest.approx(1.0)
    assert max(result.similarity[1:]) < 1.0
    assert result.similarity[1] > result.similarity[2] > result.similarity[4] > result.similarity[8]


def test_a_wrong_encoding_would_be_noticed() -> None:
    shifted = sinusoids(64, 64, torch.float64, start=1)
    assert positions.largest_difference(positions.by_formula(64, 64), shifted) > 0.1


def test_one_position_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        positions.compute(1, 8)
