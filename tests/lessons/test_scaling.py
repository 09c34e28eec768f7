"""The claims of `regard show scaling`: variance d, saturation without the scale, none with it."""

import math

import pytest
import torch

from regard.lessons import scaling


@pytest.fixture(scope="module")
def result() -> scaling.Scaling:
    return scaling.measure((1, 4, 16, 64, 256, 1024), draws=4096)


def test_dot_product_has_variance_d_and_scaled_has_variance_one(result: scaling.Scaling) -> None:
    for dot, scaled in zip(result.dot, result.scaled, strict=True):
        # The fewer components, the more the variance of a few thousand draws strays: at d = 1 by 2.3%.
        stray = 0.07 if dot.size == 1 else 0.04
        assert dot.variance == pytest.approx(dot.size, rel=stray)
        assert scaled.variance == pytest.approx(1.0, rel=stray)


def test_unscaled_entropy_falls_and_scaled_stays(result: scaling.Scaling) -> None:
    unscaled = [row.entropy for row in result.dot]
    assert unscaled == sorted(unscaled, reverse=True)
    assert result.dot[-1].entropy_share < 0.05
    assert all(row.entropy == pytest.approx(result.scaled[0].entropy, rel=0.03) for row in result.scaled)


def test_unscaled_gradient_vanishes_and_scaled_stays(result: scaling.Scaling) -> None:
    slopes = [row.slope for row in result.dot]
    assert slopes == sorted(slopes, reverse=True)
    assert result.dot[-1].slope < result.scaled[-1].slope / 8
    assert result.dot[-1].jacobian < result.scaled[-1].jacobian / 100
    assert all(row.slope == pytest.approx(result.scaled[0].slope, rel=0.03) for row in result.scaled)


def test_largest_weight_comes_near_one_without_the_scale(result: scaling.Scaling) -> None:
    assert result.dot[-1].largest > 0.9
    assert result.scaled[-1].largest < 0.2


def test_jacobian_norm_is_that_of_the_derivative() -> None:
    scores = 3 * torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    norms = scaling.jacobian_norm(scores.softmax(-1))
    for row, norm in zip(scores, norms, strict=True):
        derivative = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), row)
        torch.testing.assert_close(norm, torch.linalg.matrix_norm(derivative))


def test_equal_scores_give_uniform_weights() -> None:
    even = scaling.describe(torch.zeros(3, 16, dtype=torch.float64), size=1)
    assert even.entropy == pytest.approx(math.log(16))
    assert even.entropy_share == pytest.approx(1.0)
    assert even.largest == pytest.approx(1 / 16)
    assert even.slope == pytest.approx(1 / 16 * 15 / 16)


def test_the_seed_decides() -> None:
    first = scaling.measure((8,), draws=64, seed=3)
    assert scaling.measure((8,), draws=64, seed=3) == first
    assert scaling.measure((8,), draws=64, seed=4).dot != first.dot
