"""Noise schedules of diffusion (Ho et al. 2020; Nichol and Dhariwal 2021)."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

MAX_BETA = 0.999
"""Upper bound of beta: the last step of the cosine schedule would have 1."""


class NoiseSchedule(nn.Module):
    """After step t an image is sqrt(alphas_cumprod[t]) image + sqrt(1 - alphas_cumprod[t]) noise.

    Args:
        schedule: "cosine" (Nichol and Dhariwal 2021) or "linear" (Ho et al. 2020).
        steps: Number of steps.
    """

    def __init__(self, schedule: Literal["cosine", "linear"], steps: int) -> None:
        super().__init__()
        alphas = 1 - make_betas(schedule, steps)
        self.alphas_cumprod: Tensor
        self.register_buffer("alphas_cumprod", alphas.cumprod(0).float(), persistent=False)

    @property
    def steps(self) -> int:
        return len(self.alphas_cumprod)

    def add_noise(self, images: Tensor, times: Tensor, noise: Tensor) -> Tensor:
        """Images after some steps of the forward process.

        Args:
            images: (batch, ...).
            times: (batch,), the step of each image.
            noise: As images, standard normal.

        Returns:
            As images.
        """
        alphas_cumprod = self.alphas_cumprod[times].view(-1, *(1,) * (images.dim() - 1))
        return alphas_cumprod.sqrt() * images + (1 - alphas_cumprod).sqrt() * noise

    def snr(self, times: Tensor) -> Tensor:
        """Signal-to-noise ratio after the steps `times`."""
        alphas_cumprod = self.alphas_cumprod[times]
        return alphas_cumprod / (1 - alphas_cumprod)


def make_betas(schedule: Literal["cosine", "linear"], steps: int) -> Tensor:
    """The variance of the noise that each step adds, in double precision: (steps,)."""
    if schedule == "linear":  # the same total noise for any number of steps; 1000 steps have 0.0001 to 0.02
        scale = 1000 / steps
        return torch.linspace(1e-4 * scale, 2e-2 * scale, steps, dtype=torch.float64).clamp(max=MAX_BETA)
    times = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    alphas_cumprod = torch.cos((times + 0.008) / 1.008 * math.pi / 2) ** 2
    return (1 - alphas_cumprod[1:] / alphas_cumprod[:-1]).clamp(max=MAX_BETA)
