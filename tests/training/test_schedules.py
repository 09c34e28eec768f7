"""Learning rates at the steps where their value is known."""

import pytest

from regard.training.schedules import constant, cosine, inverse_sqrt, linear, noam


def test_noam_has_the_values_of_the_report() -> None:
    lr = noam(d_model=512, warmup=3000)
    assert f"{lr(2):.1e}" == "5.4e-07"
    assert f"{max(lr(step) for step in range(1, 9000)):.1e}" == "8.1e-04"
    assert max(range(1, 9000), key=lr) == 3000
    assert lr(12000) == pytest.approx(lr(3000) / 2)


@pytest.mark.parametrize(
    "schedule", [inverse_sqrt(0.01, 100), constant(0.01, 100), cosine(0.01, 100, 1000), linear(0.01, 100, 1000)]
)
def test_warm_up_is_linear_up_to_the_peak(schedule) -> None:
    assert schedule(1) == pytest.approx(0.0001)
    assert schedule(50) == pytest.approx(0.005)
    assert schedule(100) == pytest.approx(0.01)
    assert all(schedule(step) <= 0.01 + 1e-12 for step in range(1, 1200))


def test_decay_of_each_schedule() -> None:
    assert inverse_sqrt(0.01, 100)(400) == pytest.approx(0.005)
    assert constant(0.01)(1) == constant(0.01)(10**6) == 0.01
    assert cosine(0.01, 100, 1000)(550) == pytest.approx(0.005)
    assert cosine(0.01, 100, 1000, floor=0.001)(5000) == pytest.approx(0.001)
    assert linear(0.01, 0, 1000)(250) == pytest.approx(0.0075)
