"""Noise schedules against their closed formulas."""

import math

import pytest
import torch

from regard.nn.noise import Noise, added


def test_the_cosine_schedule_is_its_formula() -> None:
    """signal(t) = f(t) / f(0), f(t) = cos^2 of a right angle's share (Nichol and Dhariwal 2021, eq. 17)."""
    steps = 1000
    f = [math.cos((t / steps + 0.008) / 1.008 * math.pi / 2) ** 2 for t in range(steps + 1)]
    wanted = [f[t] / f[0] for t in range(1, steps)]  # the last step is bounded
    signal = Noise("cosine", steps).signal
    assert torch.allclose(signal[:-1], torch.tensor(wanted), atol=1e-6)
    assert 0 < float(signal[-1]) < float(signal[-2])
    assert float(added("cosine", steps)[-1]) == pytest.approx(0.999)


def test_the_linear_schedule_is_its_formula() -> None:
    variances = [1e-4 + (2e-2 - 1e-4) * t / 999 for t in range(1000)]
    wanted = [math.exp(sum(math.log(1 - each) for each in variances[: t + 1])) for t in (0, 10, 500, 999)]
    assert Noise("linear", 1000).signal[[0, 10, 500, 999]].tolist() == pytest.approx(wanted, rel=1e-5)
    assert float(Noise("linear", 100).signal[-1]) == pytest.approx(wanted[-1], rel=0.5)  # as much in all


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_noised_pictures_keep_their_variance(schedule) -> None:
    noise = Noise(schedule, 50)
    torch.manual_seed(0)
    pictures, fresh = torch.randn(2, 200, 1, 8, 8)
    for time in (0, 25, 49):
        found = noise.noised(pictures, torch.full((200,), time), fresh)
        signal = float(noise.signal[time])
        assert torch.allclose(found, math.sqrt(signal) * pictures + math.sqrt(1 - signal) * fresh, atol=1e-5)
        assert float(found.var()) == pytest.approx(1, abs=0.05)
    ratio = noise.ratio(torch.arange(50))
    assert (ratio[1:] < ratio[:-1]).all()
    assert float(ratio[0]) == pytest.approx(float(noise.signal[0] / (1 - noise.signal[0])))
