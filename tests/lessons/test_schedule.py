"""The claims of `regard show schedule`: the numbers of the report, and what size and warm-up do."""

import pytest

from regard.lessons import schedule


def test_the_numbers_of_the_report() -> None:
    curve = schedule.compute(512, 3000).paper[0]
    assert f"{curve.peak:.1e}" == "8.1e-04"
    assert f"{curve.second:.1e}" == "5.4e-07"
    assert curve.peak_step == 3000
    assert "8.1e-04" in schedule.compute().finding()
    assert "5.4e-07" in schedule.compute().finding()


def test_twice_the_size_divides_the_learning_rate_by_root_two_and_a_longer_warmup_peaks_later_and_lower() -> (
    None
):
    base, _, wide, _, long = schedule.compute().paper
    assert wide.peak == pytest.approx(base.peak / 2**0.5)
    assert long.peak_step == 2 * base.peak_step
    assert long.peak == pytest.approx(base.peak / 2**0.5)
    assert long.last == pytest.approx(base.last)


def test_every_kind_rises_to_the_same_peak() -> None:
    kinds = {curve.name: curve for curve in schedule.compute(256, 100, 1000).kinds}
    peak = kinds["constant"].peak
    for curve in kinds.values():
        assert curve.peak == pytest.approx(peak)
        assert curve.peak_step == 100
    assert kinds["inverse_sqrt"].rates == pytest.approx(kinds["noam (the paper's)"].rates)
    assert kinds["constant"].last == peak
    assert kinds["cosine"].last == pytest.approx(0.0, abs=1e-12)
    assert kinds["linear"].last == pytest.approx(0.0, abs=1e-12)


def test_a_warmup_beyond_the_end_is_refused() -> None:
    with pytest.raises(ValueError, match="before the last step"):
        schedule.compute(warmup=100, steps=100)
