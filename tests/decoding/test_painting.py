"""From noise to pictures: both samplers against their formulas, guidance, and chance that can be repeated."""

import pytest
import torch
from support.small_diffusion import END, PADDING, SIDE, small_unet

from regard.decoding.diffusion import (
    DiffusionConfig,
    earlier,
    first_guess,
    guided,
    paint,
    spread_of,
    times_of,
)
from regard.errors import RegardError
from regard.nn.noise import Noise

PROMPTS = torch.tensor([[4, 5, END], [6, END, PADDING], [7, END, PADDING]])
NOTHING = torch.tensor([[END]])


@pytest.fixture(scope="module")
def model():
    return small_unet()


def test_times_run_from_the_last_step_to_the_first() -> None:
    assert times_of(1000, 4) == [999, 666, 333, 0]
    assert times_of(10, 10) == list(range(9, -1, -1))
    assert times_of(10, 1) == [9]


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_ddim_steps_along_the_noise_it_was_told(schedule) -> None:
    """With the right noise, a picture at step t becomes the same picture with the same noise at step s."""
    noise = Noise(schedule, 100)
    torch.manual_seed(0)
    original, fresh = torch.rand(3, 1, 4, 4) * 2 - 1, torch.randn(3, 1, 4, 4)
    at = {time: noise.noised(original, torch.full((3,), time), fresh) for time in (60, 20)}
    guess = first_guess(noise, at[60], fresh, 60)
    assert torch.allclose(guess, original, atol=1e-5)
    assert torch.allclose(earlier(noise, at[60], guess, 60, 20), at[20], atol=1e-5)
    assert torch.allclose(earlier(noise, at[60], guess, 60, None), original, atol=1e-5)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize("time", [1, 40, 80])
def test_ddpm_steps_are_those_of_the_posterior(schedule, time) -> None:
    """Mean and variance of q(x at t-1 | x at t, original): Ho et al. 2020, eq. 7."""
    noise = Noise(schedule, 100)
    torch.manual_seed(0)
    original, now = torch.rand(2, 1, 4, 4), torch.randn(2, 1, 4, 4)
    signal, before = (noise.signal[each].double() for each in (time, time - 1))
    beta = 1 - signal / before
    mean = (before.sqrt() * beta * original + (1 - beta).sqrt() * (1 - before) * now) / (1 - signal)
    spread = spread_of(noise, time, time - 1)
    assert spread**2 == pytest.approx(float((1 - before) / (1 - signal) * beta), rel=1e-3)
    assert torch.allclose(earlier(noise, now, original, time, time - 1, spread), mean.float(), atol=1e-4)
    assert spread_of(noise, 0, None) == 0


@pytest.mark.parametrize("sampler", ["ddim", "ddpm"])
def test_the_same_seed_paints_the_same_whatever_is_painted_beside(model, sampler) -> None:
    options = DiffusionConfig(sampler, 5, 2.0)
    together = paint(model, PROMPTS, NOTHING, options, [1, 2, 3])
    assert torch.equal(together, paint(model, PROMPTS, NOTHING, options, [1, 2, 3]))
    alone = paint(model, PROMPTS[1:2], NOTHING, options, [2])
    assert torch.allclose(together[1], alone[0], atol=1e-4)
    assert not torch.allclose(together[1], paint(model, PROMPTS[1:2], NOTHING, options, [5])[0], atol=1e-2)
    assert together.abs().max() <= 1


def test_ddim_draws_noise_once_and_ddpm_at_every_step(model) -> None:
    pictures = [
        paint(model, PROMPTS, NOTHING, DiffusionConfig(name, 5), [1, 2, 3]) for name in ("ddim", "ddpm")
    ]
    assert not torch.allclose(*pictures, atol=1e-2)


def test_guidance_of_one_is_the_plain_prompt(model) -> None:
    found = paint(model, PROMPTS, NOTHING, DiffusionConfig(steps=6), [1, 2, 3])
    with torch.inference_mode():
        read = model.read(PROMPTS)
        pictures = torch.stack(
            [torch.randn(1, SIDE, SIDE, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2, 3)]
        )
        times = times_of(model.noise.steps, 6)
        for now, after in zip(times, [*times[1:], None], strict=True):
            told = model(pictures, torch.full((3,), now), read)
            pictures = earlier(model.noise, pictures, first_guess(model.noise, pictures, told, now), now, after)
    assert torch.equal(found, pictures)


def test_guidance_goes_beyond_the_prompt(model) -> None:
    torch.manual_seed(0)
    pictures = torch.randn(3, 1, SIDE, SIDE)
    with torch.inference_mode():
        aimed, free, guided_by = (
            guided(model, PROMPTS, NOTHING, DiffusionConfig(guidance=each))(pictures, 7)
            for each in (1.0, 0.0, 3.0)
        )
    assert torch.allclose(guided_by, free + 3 * (aimed - free), atol=1e-4)
    with torch.inference_mode():
        other = guided(model, PROMPTS.flip(0), NOTHING, DiffusionConfig(guidance=0.0))
        assert torch.equal(other(pictures, 7), free)  # without guidance no prompt is read
    assert not torch.allclose(aimed, free, atol=1e-3)


def test_what_cannot_be_painted_is_refused(model) -> None:
    with pytest.raises(RegardError, match="this model knows 20 steps of noise; it cannot paint in 21"):
        paint(model, PROMPTS, NOTHING, DiffusionConfig(steps=21), [1, 2, 3])
    with pytest.raises(RegardError, match="1 step at least"):
        DiffusionConfig(steps=0)
    with pytest.raises(RegardError, match=r"share of 0 to 0\.5; given: 0\.6"):
        DiffusionConfig(merge=0.6)
    with pytest.raises(RegardError, match="guidance is 0 or more"):
        DiffusionConfig(guidance=-1)
