"""Kernel regression against its formulas, written out."""

import math

import pytest
import torch
from torch import Tensor

from regard.data.regression_points import curve
from regard.nn.kernel_regression import KernelRegression


@pytest.fixture
def sample() -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(0)
    x, _ = torch.sort(5 * torch.rand(50, generator=chance))
    return x, curve(x) + 0.5 * torch.randn(50, generator=chance)


def nadaraya_watson(query: float, x: list[float], y: list[float], w: float) -> float:
    kernel = [math.exp(-(((query - each) * w) ** 2) / 2) for each in x]
    return sum(k * v for k, v in zip(kernel, y, strict=True)) / sum(kernel)


@pytest.mark.parametrize(("kernel", "w"), [("average", 0.0), ("fixed", 1.0), ("fixed", 2.5), ("learned", 2.5)])
def test_prediction_is_the_formula(sample: tuple[Tensor, Tensor], kernel: str, w: float) -> None:
    x, y = sample
    model = KernelRegression.from_points(x, y, kernel, w or 1.0)
    places = [0.0, 1.3, 4.9, 7.0]
    expected = [nadaraya_watson(place, x.tolist(), y.tolist(), w) for place in places]
    assert model(torch.tensor(places)).tolist() == pytest.approx(expected, abs=1e-5)


def test_average_is_the_mean_everywhere(sample: tuple[Tensor, Tensor]) -> None:
    x, y = sample
    assert torch.allclose(KernelRegression.from_points(x, y, "average")(x), y.mean().expand(50), atol=1e-6)


def test_leaving_one_out_never_sees_its_own_point(sample: tuple[Tensor, Tensor]) -> None:
    x, y = sample
    model = KernelRegression.from_points(x, y, "fixed", 3.0)
    expected = [
        nadaraya_watson(float(x[i]), [*x[:i].tolist(), *x[i + 1 :].tolist()], [*y[:i].tolist(), *y[i + 1 :].tolist()], 3.0)
        for i in range(50)
    ]  # fmt: skip
    assert model.leave_one_out().tolist() == pytest.approx(expected, abs=1e-5)
    model.y[7] += 100  # a point's own value has no say in its prediction
    assert float(model.leave_one_out()[7]) == pytest.approx(expected[7], abs=1e-4)


def test_only_the_learned_kernel_has_something_to_learn(sample: tuple[Tensor, Tensor]) -> None:
    counts = {
        k: len(list(KernelRegression.from_points(*sample, k).parameters()))
        for k in ("average", "fixed", "learned")
    }
    assert counts == {"average": 0, "fixed": 0, "learned": 1}
