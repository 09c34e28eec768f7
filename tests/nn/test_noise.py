"""Noise schedules against their closed formulas."""

import math

import pytest
import torch

from regard.nn.noise import NoiseSchedule, make_betas


def test_the_cosine_schedule_is_its_formula() -> None:
    """alphas_cumprod(t) = f(t) / f(0), f(t) = cos^2((t / T + s) / (1 + s) pi / 2) (Nichol and Dhariwal 2021, eq. 17)"""
    steps = 1000
    f = [math.cos((t / steps + 0.008) / 1.008 * math.pi / 2) ** 2 for t in range(steps + 1)]
    expected = [f[t] / f[0] for t in range(1, steps)]  # the last step is bounded
    alphas_cumprod = NoiseSchedule("cosine", steps).alphas_cumprod
    assert torch.allclose(alphas_cumprod[:-1], torch.tensor(expected), atol=1e-6)
    assert 0 < float(alphas_cumprod[-1]) < float(alphas_cumprod[-2])
    assert float(make_betas("cosine", steps)[-1]) == pytest.approx(0.999)


def test_the_linear_schedule_is_its_formula() -> None:
    betas = [1e-4 + (2e-2 - 1e-4) * t / 999 for t in range(1000)]
    steps = [0, 10, 500, 999]
    expected = [math.exp(sum(math.log(1 - beta) for beta in betas[: step + 1])) for step in steps]
    alphas_cumprod = NoiseSchedule("linear", 1000).alphas_cumprod
    assert alphas_cumprod[steps].tolist() == pytest.approx(expected, rel=1e-5)
    fewer_steps = NoiseSchedule("linear", 100).alphas_cumprod
    assert float(fewer_steps[-1]) == pytest.approx(expected[-1], rel=0.5)  # about the same total noise


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_noisy_images_keep_their_variance(schedule) -> None:
    noise = NoiseSchedule(schedule, 50)
    torch.manual_seed(0)
    images, fresh = torch.randn(2, 200, 1, 8, 8)
    for time in (0, 25, 49):
        noisy = noise.add_noise(images, torch.full((200,), time), fresh)
        alpha = float(noise.alphas_cumprod[time])
        assert torch.allclose(noisy, math.sqrt(alpha) * images + math.sqrt(1 - alpha) * fresh, atol=1e-5)
        assert float(noisy.var()) == pytest.approx(1, abs=0.05)
    snr = noise.snr(torch.arange(50))
    assert (snr[1:] < snr[:-1]).all()
    assert float(snr[0]) == pytest.approx(float(noise.alphas_cumprod[0] / (1 - noise.alphas_cumprod[0])))
