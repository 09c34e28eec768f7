"""Diffusion sampling: both samplers against their formulas, guidance, repeatable seeds."""

import pytest
import torch
from support.small_diffusion import END, PADDING, SIDE, small_unet

from regard.decoding.diffusion import (
    DiffusionConfig,
    ddpm_sigma,
    denoising_step,
    guided_noise_predictor,
    predict_original,
    sample_images,
    sampling_timesteps,
)
from regard.errors import RegardError
from regard.nn.noise import NoiseSchedule

PROMPTS = torch.tensor([[4, 5, END], [6, END, PADDING], [7, END, PADDING]])
EMPTY_PROMPT = torch.tensor([[END]])


@pytest.fixture(scope="module")
def model():
    return small_unet()


def test_timesteps_run_from_the_last_to_the_first() -> None:
    assert sampling_timesteps(1000, 4) == [999, 666, 333, 0]
    assert sampling_timesteps(10, 10) == list(range(9, -1, -1))
    assert sampling_timesteps(10, 1) == [9]


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_ddim_follows_the_predicted_noise(schedule) -> None:
    """With the right noise, an image at timestep t becomes the same image with the same noise at timestep s."""
    noise = NoiseSchedule(schedule, 100)
    torch.manual_seed(0)
    original, fresh = torch.rand(3, 1, 4, 4) * 2 - 1, torch.randn(3, 1, 4, 4)
    at = {time: noise.add_noise(original, torch.full((3,), time), fresh) for time in (60, 20)}
    guess = predict_original(noise, at[60], fresh, 60)
    assert torch.allclose(guess, original, atol=1e-5)
    assert torch.allclose(denoising_step(noise, at[60], guess, 60, 20), at[20], atol=1e-5)
    assert torch.allclose(denoising_step(noise, at[60], guess, 60, None), original, atol=1e-5)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize("time", [1, 40, 80])
def test_ddpm_steps_are_those_of_the_posterior(schedule, time) -> None:
    """Mean and variance of q(x at t-1 | x at t, original): Ho et al. 2020, eq. 7."""
    noise = NoiseSchedule(schedule, 100)
    torch.manual_seed(0)
    original, now = torch.rand(2, 1, 4, 4), torch.randn(2, 1, 4, 4)
    signal, before = (noise.alphas_cumprod[index].double() for index in (time, time - 1))
    beta = 1 - signal / before
    mean = (before.sqrt() * beta * original + (1 - beta).sqrt() * (1 - before) * now) / (1 - signal)
    sigma = ddpm_sigma(noise, time, time - 1)
    assert sigma**2 == pytest.approx(float((1 - before) / (1 - signal) * beta), rel=1e-3)
    assert torch.allclose(denoising_step(noise, now, original, time, time - 1, sigma), mean.float(), atol=1e-4)
    assert ddpm_sigma(noise, 0, None) == 0


@pytest.mark.parametrize("sampler", ["ddim", "ddpm"])
def test_the_same_seed_gives_the_same_image_in_every_batch(model, sampler) -> None:
    options = DiffusionConfig(sampler, 5, 2.0)
    together = sample_images(model, PROMPTS, EMPTY_PROMPT, options, [1, 2, 3])
    assert torch.equal(together, sample_images(model, PROMPTS, EMPTY_PROMPT, options, [1, 2, 3]))
    alone = sample_images(model, PROMPTS[1:2], EMPTY_PROMPT, options, [2])
    assert torch.allclose(together[1], alone[0], atol=1e-4)
    assert not torch.allclose(
        together[1], sample_images(model, PROMPTS[1:2], EMPTY_PROMPT, options, [5])[0], atol=1e-2
    )
    assert together.abs().max() <= 1


def test_ddim_and_ddpm_differ_from_the_same_initial_noise(model) -> None:
    ddim, ddpm = (
        sample_images(model, PROMPTS, EMPTY_PROMPT, DiffusionConfig(name, 5), [1, 2, 3])
        for name in ("ddim", "ddpm")
    )
    assert not torch.allclose(ddim, ddpm, atol=1e-2)


def test_a_guidance_scale_of_one_is_the_conditional_prediction(model) -> None:
    images = sample_images(model, PROMPTS, EMPTY_PROMPT, DiffusionConfig(steps=6), [1, 2, 3])
    with torch.inference_mode():
        encoded = model.encode_prompt(PROMPTS)
        expected = torch.stack(
            [torch.randn(1, SIDE, SIDE, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2, 3)]
        )
        times = sampling_timesteps(model.noise.steps, 6)
        for time, next_time in zip(times, [*times[1:], None], strict=True):
            noise = model(expected, torch.full((3,), time), encoded)
            original = predict_original(model.noise, expected, noise, time)
            expected = denoising_step(model.noise, expected, original, time, next_time)
    assert torch.equal(images, expected)


def test_guidance_extrapolates_from_the_unconditional_prediction(model) -> None:
    torch.manual_seed(0)
    images = torch.randn(3, 1, SIDE, SIDE)
    with torch.inference_mode():
        conditional, unconditional, with_guidance = (
            guided_noise_predictor(model, PROMPTS, EMPTY_PROMPT, DiffusionConfig(guidance=scale))(images, 7)
            for scale in (1.0, 0.0, 3.0)
        )
    assert torch.allclose(with_guidance, unconditional + 3 * (conditional - unconditional), atol=1e-4)
    with torch.inference_mode():
        ignoring_prompts = guided_noise_predictor(
            model, PROMPTS.flip(0), EMPTY_PROMPT, DiffusionConfig(guidance=0.0)
        )
        assert torch.equal(ignoring_prompts(images, 7), unconditional)
    assert not torch.allclose(conditional, unconditional, atol=1e-3)


def test_invalid_sampling_settings_are_refused(model) -> None:
    with pytest.raises(
        RegardError, match="steps: 21 is out of range; this model's noise schedule has 20 steps"
    ):
        sample_images(model, PROMPTS, EMPTY_PROMPT, DiffusionConfig(steps=21), [1, 2, 3])
    with pytest.raises(RegardError, match="steps: 0 is out of range"):
        DiffusionConfig(steps=0)
    with pytest.raises(RegardError, match=r"merge: 0\.6 is out of range"):
        DiffusionConfig(merge=0.6)
    with pytest.raises(RegardError, match="guidance: -1 is out of range"):
        DiffusionConfig(guidance=-1)
