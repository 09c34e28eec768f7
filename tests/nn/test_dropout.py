"""Dropout from random bytes: the right share, everywhere, and repeatable."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from regard.nn import Dropout

PROBABILITIES = [0.01, 0.1, 0.25, 0.3, 0.5, 0.9]


def rounded(probability: float) -> float:
    return round(probability * 256) / 256


def sigma(share: float, number: int) -> float:
    return math.sqrt(share * (1 - share) / number)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.99])
def test_in_evaluation_it_is_the_identity(probability):
    x = torch.randn(3, 5)
    assert Dropout(probability).eval()(x) is x


def test_a_probability_of_0_drops_nothing_while_training():
    x = torch.randn(3, 5)
    assert Dropout(0.0).train()(x) is x


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_the_share_dropped_is_the_probability_to_the_nearest_256th(probability):
    torch.manual_seed(0)
    number = 400_000
    out = Dropout(probability)(torch.ones(number))
    share = (out == 0).float().mean().item()
    expected = rounded(probability)
    assert abs(expected - probability) <= 1 / 512
    assert abs(share - expected) <= 3 * sigma(expected, number)


@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_kept_is_scaled_so_that_the_expectation_stays(probability, dtype):
    torch.manual_seed(0)
    number, share = 400_000, rounded(probability)
    x = torch.full((number,), 3.0, dtype=dtype)
    out = Dropout(probability)(x)
    kept = out[out != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 3 / (1 - share)))
    deviation = 3 / (1 - share) * sigma(share, number)
    assert out.double().mean().item() == pytest.approx(3.0, abs=3 * deviation)
    assert out.dtype == dtype


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_every_byte_of_the_words_drops_the_same_share(probability):
    torch.manual_seed(0)
    number = 100_000
    dropped = Dropout(probability)(torch.ones(number, 8)) == 0  # a row is one 64-bit word
    expected = rounded(probability)
    for share in dropped.float().mean(0).tolist():
        assert abs(share - expected) <= 4 * sigma(expected, number)


def test_every_byte_value_is_equally_likely_in_every_place():
    """The top byte holds the sign: a range of words without the negative ones would never drop more there."""
    torch.manual_seed(0)
    number = 200_000
    for probability in (1 / 256, 127 / 256, 128 / 256, 129 / 256, 255 / 256):
        shares = (Dropout(probability)(torch.ones(number, 8)) == 0).float().mean(0)
        assert (shares - probability).abs().max().item() <= 4.5 * sigma(probability, number)


def test_neighbours_are_dropped_independently():
    torch.manual_seed(0)
    number = 200_000
    dropped = (Dropout(0.5)(torch.ones(number, 8)) == 0).double()
    correlation = torch.corrcoef(dropped.T) - torch.eye(8)
    assert correlation.abs().max().item() <= 4.5 / math.sqrt(number)


def test_the_same_seed_gives_the_same_mask_and_the_next_call_another():
    dropout, x = Dropout(0.5), torch.ones(100)
    torch.manual_seed(4)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(4)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (9,), (3, 5), (2, 3, 11), (0,), (8,)])
def test_any_number_of_elements_works(shape):
    torch.manual_seed(0)
    x = torch.ones(shape)
    for _ in range(20):
        out = Dropout(0.5)(x)
        assert out.shape == x.shape
        assert ((out == 0) | (out == 2)).all()


def test_a_transposed_tensor_is_dropped_where_it_stands():
    torch.manual_seed(0)
    x = torch.randn(6, 9).T
    out = Dropout(0.5)(x)
    assert torch.equal(out, torch.where(out == 0, 0.0, 2 * x))
    assert 0 < (out == 0).sum() < out.numel()


def test_the_gradient_passes_where_the_value_passed():
    torch.manual_seed(0)
    x = torch.randn(50, requires_grad=True)
    out = Dropout(0.5)(x)
    out.sum().backward()
    assert torch.equal(x.grad, torch.where(out == 0, 0.0, 2.0))

    def repeatable(x):
        torch.manual_seed(0)
        return Dropout(0.3)(x)

    assert gradcheck(repeatable, (torch.randn(13, dtype=torch.float64, requires_grad=True),))


@pytest.mark.parametrize("probability", [-0.1, 1.0, 1.5, math.nan, math.inf])
def test_a_probability_out_of_range_is_refused(probability):
    with pytest.raises(ValueError, match=f"at least 0 and below 1; given: {probability}"):
        Dropout(probability)
