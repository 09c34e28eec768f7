"""The loss of a model that tells noise from pictures."""

from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
from torch import Tensor

from regard.data.diffusion import PaintBatch
from regard.nn.noise import NoiseSchedule
from regard.nn.unet import Unet


class NoiseObjective:
    """Squared error of the noise, mean over the pixels, summed over the pictures of a batch.

    Each picture gets noise of a strength of chance. Where little noise is left the error tells little of the
    picture: its weight falls as the ratio of signal to noise grows beyond `most_signal` (Hang et al. 2023).
    """

    def __init__(self, model: Unet, most_signal: float = 0.0, precision: torch.dtype = torch.float32) -> None:
        self.model, self.precision = model, precision
        self.device = next(model.parameters()).device
        self.weights = weights_of(model.noise, most_signal).to(self.device)

    def __call__(self, batch: PaintBatch) -> Tensor:
        batch = batch.to(self.device)
        times = spread_times(len(batch.pictures), self.model.noise.steps).to(self.device)
        return self.loss(batch, times, torch.randn_like(batch.pictures))

    def loss(self, batch: PaintBatch, times: Tensor, noise: Tensor) -> Tensor:
        """The loss for this noise in the pictures, after these steps (pictures,)."""
        noised = self.model.noise.add_noise(batch.pictures, times, noise)
        with self.autocast():
            told = self.model(noised, times, self.model.encode_prompt(batch.prompts)).float()
        errors = (told - noise).square().flatten(1).mean(1)
        return cast(Tensor, (errors * self.weights[times]).sum())

    def autocast(self) -> AbstractContextManager[object]:
        if self.precision == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.precision)


def weights_of(noise: NoiseSchedule, most_signal: float) -> Tensor:
    """The weight of an error after each step: min(ratio, most) / ratio; without a bound all weigh alike."""
    ratio = noise.snr(torch.arange(noise.steps))
    return ratio.clamp(max=most_signal) / ratio if most_signal else torch.ones_like(ratio)


def spread_times(pictures: int, steps: int) -> Tensor:
    """A step for each picture, evenly spread over all from a start of chance: less varied than chance alone."""
    places = (torch.rand(()) + torch.arange(pictures) / max(1, pictures)) % 1
    return (places * steps).long().clamp(max=steps - 1)
