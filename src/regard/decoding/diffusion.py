"""Diffusion sampling: DDPM (Ho et al. 2020) and DDIM (Song et al. 2021), with classifier-free guidance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import RegardError
from regard.nn.noise import NoiseSchedule
from regard.nn.unet import Unet

NoisePredictor = Callable[[Tensor, int], Tensor]
"""Predicts the noise in images (batch, 1, side, side) at a timestep."""


@dataclass(frozen=True)
class DiffusionConfig:
    """Settings of diffusion sampling."""

    sampler: Literal["ddim", "ddpm"] = "ddim"
    """ddim: deterministic after the initial noise; ddpm: new noise at every step."""
    steps: int = 30
    guidance: float = 1.0
    """Classifier-free guidance scale (Ho and Salimans 2022): 1 as trained, 0 ignores the prompt."""
    merge: float = 0.0
    """Token merging: share of the pixels merged before self-attention."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise RegardError(f"steps: {self.steps} is out of range; allowed is 1 or more")
        if not 0 <= self.merge <= 0.5:
            raise RegardError(f"merge: {self.merge:g} is out of range; allowed is 0 to 0.5")
        if self.guidance < 0:
            raise RegardError(f"guidance: {self.guidance:g} is out of range; allowed is 0 or more")


@torch.inference_mode()
def sample_images(
    model: Unet, prompts: Tensor, empty_prompt: Tensor, options: DiffusionConfig, seeds: Sequence[int]
) -> Tensor:
    """One generated image per prompt: (batch, 1, side, side), from -1 to 1.

    The same seed gives the same image, whatever else is in the batch.

    Args:
        model: Predicts the noise.
        prompts: Prompt ids: (batch, words).
        empty_prompt: Ids of the empty prompt, for guidance: (1, words).
        options: Sampler, number of steps, guidance scale.
        seeds: One seed per prompt.

    Raises:
        RegardError: More steps than the model's noise schedule has.
    """
    if options.steps > model.noise.steps:
        raise RegardError(
            f"steps: {options.steps} is out of range; this model's noise schedule has {model.noise.steps} steps"
        )
    device = prompts.device
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    predict_noise = guided_noise_predictor(model, prompts, empty_prompt, options)
    images = gaussian_noise(generators, model.side).to(device)
    for time, next_time in pairwise([*sampling_timesteps(model.noise.steps, options.steps), None]):
        assert time is not None
        original = predict_original(model.noise, images, predict_noise(images, time), time)
        sigma = ddpm_sigma(model.noise, time, next_time) if options.sampler == "ddpm" else 0.0
        images = denoising_step(model.noise, images, original, time, next_time, sigma)
        if sigma:
            images = images + sigma * gaussian_noise(generators, model.side).to(device)
    return images


def gaussian_noise(generators: Sequence[torch.Generator], side: int) -> Tensor:
    """Standard normal noise, one generator per image: (batch, 1, side, side)."""
    return torch.stack([torch.randn(1, side, side, generator=generator) for generator in generators])


def sampling_timesteps(noise_steps: int, steps: int) -> list[int]:
    """The timesteps to visit, evenly spaced from the last one down to 0."""
    return [round(time) for time in torch.linspace(noise_steps - 1, 0, steps, dtype=torch.float64).tolist()]


def guided_noise_predictor(
    model: Unet, prompts: Tensor, empty_prompt: Tensor, options: DiffusionConfig
) -> NoisePredictor:
    """Noise prediction with classifier-free guidance: unconditional + scale * (conditional - unconditional)."""
    count = len(prompts)
    if options.guidance == 0:
        prompts = empty_prompt.expand(count, -1)
    needs_both = options.guidance not in (0, 1)
    if needs_both:
        width = max(prompts.size(1), empty_prompt.size(1))
        conditional_ids = pad_ids(prompts, width, model.padding)
        unconditional_ids = pad_ids(empty_prompt, width, model.padding).expand(count, -1)
        prompts = torch.cat([conditional_ids, unconditional_ids])
    encoded = model.encode_prompt(prompts)

    def predict_noise(images: Tensor, time: int) -> Tensor:
        if needs_both:
            images = torch.cat([images, images])
        times = torch.full((len(images),), time, device=images.device)
        noise = cast(Tensor, model(images, times, encoded, merge=options.merge))
        if not needs_both:
            return noise
        conditional, unconditional = noise.chunk(2)
        return unconditional + options.guidance * (conditional - unconditional)

    return predict_noise


def pad_ids(ids: Tensor, width: int, padding: int) -> Tensor:
    return functional.pad(ids, (0, width - ids.size(1)), value=padding)


def predict_original(noise: NoiseSchedule, images: Tensor, predicted_noise: Tensor, time: int) -> Tensor:
    """The noise-free image that a noise prediction implies (Song et al. 2021, eq. 9), clamped to [-1, 1]."""
    signal = noise.alphas_cumprod[time]
    return ((images - (1 - signal).sqrt() * predicted_noise) / signal.sqrt()).clamp(-1, 1)


def ddpm_sigma(noise: NoiseSchedule, time: int, next_time: int | None) -> float:
    """Standard deviation of the noise that DDPM adds between two timesteps; 0 after the last one."""
    signal = float(noise.alphas_cumprod[time])
    next_signal = 1.0 if next_time is None else float(noise.alphas_cumprod[next_time])
    return float(((1 - next_signal) / (1 - signal) * (1 - signal / next_signal)) ** 0.5)


def denoising_step(
    noise: NoiseSchedule, images: Tensor, original: Tensor, time: int, next_time: int | None, sigma: float = 0.0
) -> Tensor:
    """The images at the next timestep, without the random term (Song et al. 2021, eq. 12).

    With `sigma`, less of the predicted noise is kept: the caller adds fresh noise of that deviation.
    """
    signal = noise.alphas_cumprod[time]
    next_signal = torch.ones_like(signal) if next_time is None else noise.alphas_cumprod[next_time]
    implied_noise = (images - signal.sqrt() * original) / (1 - signal).sqrt()
    return next_signal.sqrt() * original + (1 - next_signal - sigma**2).clamp(min=0).sqrt() * implied_noise
