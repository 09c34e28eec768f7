"""The claims of `regard show smoothing`: where the loss is least, and what the target looks like."""

import math

import pytest
import torch

from regard.lessons import smoothing


@pytest.mark.parametrize("e", [0.05, 0.1, 0.2, 0.4, 0.8])
def test_loss_is_least_where_theory_says(e: float) -> None:
    (curve,) = smoothing.compute([e]).curves
    assert curve.best == pytest.approx(1 - e, abs=0.0011)
    assert curve.least == pytest.approx(0.0, abs=1e-5)
    assert curve.at(0.999) > curve.at(0.99) > curve.least
    assert curve.turns


def test_loss_follows_the_formula() -> None:
    e = 0.1
    (curve,) = smoothing.compute([e]).curves
    for p in (0.001, 0.3, 0.9, 0.999):
        expected = (1 - e) * math.log((1 - e) / p) + e * math.log(e / (1 - p))
        assert curve.at(p) == pytest.approx(expected, abs=1e-6)


def test_without_smoothing_the_loss_never_turns() -> None:
    result = smoothing.compute([0.0], target_smoothing=0.0)
    (curve,) = result.curves
    assert not curve.turns
    assert curve.best == pytest.approx(0.999)
    assert curve.at(0.5) == pytest.approx(math.log(2))
    assert "falls to the end" in result.finding()


def test_target_has_rows_of_one_and_a_padding_row_of_nothing() -> None:
    target = smoothing.compute(target_smoothing=0.3).target
    torch.testing.assert_close(target[:-1].sum(1), torch.ones(len(smoothing.SENTENCE) - 1))
    assert target[-1].count_nonzero() == 0
    assert target[:, smoothing.PADDING].count_nonzero() == 0
    assert target[0].max().item() == pytest.approx(0.7)
