"""Noise schedules of diffusion (Ho et al. 2020; Nichol and Dhariwal 2021)."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

LARGEST = 0.999
"""Of the cosine schedule, the most noise that one step adds; without a bound its last step would be all."""


class Noise(nn.Module):
    """A schedule: after step t a picture is sqrt(signal[t]) of itself and sqrt(1 - signal[t]) of noise."""

    def __init__(self, schedule: Literal["cosine", "linear"], steps: int) -> None:
        super().__init__()
        kept = 1 - added(schedule, steps)
        self.signal: Tensor
        self.register_buffer("signal", kept.cumprod(0).float(), persistent=False)

    @property
    def steps(self) -> int:
        return len(self.signal)

    def noised(self, pictures: Tensor, times: Tensor, noise: Tensor) -> Tensor:
        """The pictures (batch, ...) after the steps `times` (batch,), with this noise in them."""
        signal = self.at(times, pictures)
        return signal.sqrt() * pictures + (1 - signal).sqrt() * noise

    def ratio(self, times: Tensor) -> Tensor:
        """Signal to noise after the steps `times`."""
        signal = self.signal[times]
        return signal / (1 - signal)

    def at(self, times: Tensor, like: Tensor) -> Tensor:
        """The signal after the steps `times` (batch,), shaped to be multiplied with pictures (batch, ...)."""
        return self.signal[times].view(-1, *(1,) * (like.dim() - 1))


def added(schedule: Literal["cosine", "linear"], steps: int) -> Tensor:
    """The variance that each step adds, in double precision: (steps,)."""
    if schedule == "linear":  # as much in all, however many steps there are: 1000 have 0.0001 to 0.02
        scale = 1000 / steps
        return torch.linspace(1e-4 * scale, 2e-2 * scale, steps, dtype=torch.float64).clamp(max=LARGEST)
    times = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    left = torch.cos((times + 0.008) / 1.008 * math.pi / 2) ** 2
    return (1 - left[1:] / left[:-1]).clamp(max=LARGEST)
