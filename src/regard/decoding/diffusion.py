"""From noise to a picture: DDPM (Ho et al. 2020) and DDIM (Song et al. 2021), guided by a prompt."""

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

TellNoise = Callable[[Tensor, int], Tensor]
"""From pictures and the step they are at, the noise in them."""


@dataclass(frozen=True)
class DiffusionConfig:
    """How pictures are painted."""

    sampler: Literal["ddim", "ddpm"] = "ddim"
    """ddim: the noise at the start decides all; ddpm: new noise at every step."""
    steps: int = 30
    guidance: float = 1.0
    """How much a prompt counts: 1 as learned, 0 not at all, more exaggerates it (Ho and Salimans 2022)."""
    merge: float = 0.0
    """Share of the pixels that are merged before they look at each other."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise RegardError(f"a picture takes 1 step at least; given: {self.steps}")
        if not 0 <= self.merge <= 0.5:
            raise RegardError(f"pixels are merged by a share of 0 to 0.5; given: {self.merge:g}")
        if self.guidance < 0:
            raise RegardError(f"guidance is 0 or more; given: {self.guidance:g}")


@torch.inference_mode()
def paint(
    model: Unet, prompts: Tensor, nothing: Tensor, options: DiffusionConfig, seeds: Sequence[int]
) -> Tensor:
    """A picture for each prompt (prompts, words), from -1 to 1: (prompts, 1, side, side).

    `nothing` (1, words) is the prompt that says nothing. The same seed gives the same picture, whatever is
    painted beside it.
    """
    if options.steps > model.noise.steps:
        raise RegardError(
            f"this model knows {model.noise.steps} steps of noise; it cannot paint in {options.steps}"
        )
    device = prompts.device
    chances = [torch.Generator().manual_seed(seed) for seed in seeds]
    told = guided(model, prompts, nothing, options)
    pictures = drawn(chances, model.side).to(device)
    for now, after in pairwise([*times_of(model.noise.steps, options.steps), None]):
        assert now is not None
        original = first_guess(model.noise, pictures, told(pictures, now), now)
        spread = spread_of(model.noise, now, after) if options.sampler == "ddpm" else 0.0
        pictures = earlier(model.noise, pictures, original, now, after, spread)
        if spread:
            pictures = pictures + spread * drawn(chances, model.side).to(device)
    return pictures


def drawn(chances: Sequence[torch.Generator], side: int) -> Tensor:
    """Noise, each picture's from its own chance: (pictures, 1, side, side)."""
    return torch.stack([torch.randn(1, side, side, generator=sampling) for sampling in chances])


def times_of(all_steps: int, steps: int) -> list[int]:
    """The steps that are taken, from the last down to 0, evenly spread."""
    return [round(each) for each in torch.linspace(all_steps - 1, 0, steps, dtype=torch.float64).tolist()]


def guided(model: Unet, prompts: Tensor, nothing: Tensor, options: DiffusionConfig) -> TellNoise:
    """The noise that a model tells: with the prompt, without it, or beyond the one from the other."""
    count = len(prompts)
    if options.guidance == 0:
        prompts = nothing.expand(count, -1)
    both = options.guidance not in (0, 1)
    if both:
        width = max(prompts.size(1), nothing.size(1))
        rows = [filled(prompts, width, model.padding), filled(nothing, width, model.padding).expand(count, -1)]
        prompts = torch.cat(rows)
    read = model.encode_prompt(prompts)

    def tell(pictures: Tensor, time: int) -> Tensor:
        if both:
            pictures = torch.cat([pictures, pictures])
        times = torch.full((len(pictures),), time, device=pictures.device)
        noise = cast(Tensor, model(pictures, times, read, merge=options.merge))
        if not both:
            return noise
        aimed, free = noise.chunk(2)
        return free + options.guidance * (aimed - free)

    return tell


def filled(ids: Tensor, width: int, padding: int) -> Tensor:
    return functional.pad(ids, (0, width - ids.size(1)), value=padding)


def first_guess(noise: NoiseSchedule, pictures: Tensor, told: Tensor, now: int) -> Tensor:
    """The picture under the noise, as far as it can be told now; within black and white."""
    signal = noise.alphas_cumprod[now]
    return ((pictures - (1 - signal).sqrt() * told) / signal.sqrt()).clamp(-1, 1)


def spread_of(noise: NoiseSchedule, now: int, after: int | None) -> float:
    """Standard deviation of the noise that DDPM adds between two steps; none after the last."""
    signal, later = (
        float(noise.alphas_cumprod[now]),
        1.0 if after is None else float(noise.alphas_cumprod[after]),
    )
    return float(((1 - later) / (1 - signal) * (1 - signal / later)) ** 0.5)


def earlier(
    noise: NoiseSchedule, pictures: Tensor, original: Tensor, now: int, after: int | None, spread: float = 0.0
) -> Tensor:
    """The pictures after fewer steps, as if they had come from `original` by the noise that is in them.

    With `spread`, less of that noise: the rest comes anew.
    """
    signal = noise.alphas_cumprod[now]
    later = torch.ones_like(signal) if after is None else noise.alphas_cumprod[after]
    within = (pictures - signal.sqrt() * original) / (1 - signal).sqrt()
    return later.sqrt() * original + (1 - later - spread**2).clamp(min=0).sqrt() * within
