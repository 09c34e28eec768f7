"""The loss of a batch of sentence pairs."""

from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
from torch import Tensor, nn

from regard.data.batches import Batch
from regard.models.interface import Trainable
from regard.training.blockloss import smoothed_kl, twin_kl
from regard.training.lesson import learned


class PairObjective:
    """Label-smoothed divergence summed over the gold tokens; with R-Drop, of two passes kept close."""

    def __init__(
        self,
        model: nn.Module,
        padding: int,
        smoothing: float,
        r_drop: float = 0.0,
        precision: torch.dtype = torch.float32,
    ) -> None:
        self.model, self.padding, self.smoothing, self.r_drop = model, padding, smoothing, r_drop
        self.precision = precision
        self.device = next(model.parameters()).device

    def __call__(self, batch: Batch) -> Tensor:
        at_once = self.at_once(batch)
        if at_once is not None:
            return at_once
        # Counted before the batch goes to a GPU, which would have to be waited for.
        real = (batch.gold != self.padding).flatten().nonzero().squeeze(1)
        gold = batch.gold.flatten().index_select(0, real).to(self.device, non_blocking=True)
        real = real.to(self.device, non_blocking=True)
        batch = batch.to(self.device)
        if not self.r_drop:
            return self.loss(self.rows(batch, real), gold)
        # Both passes at once: the batch twice, with dropout of its own each.
        source, target, both_gold = (torch.cat((x, x)) for x in (batch.source, batch.target, batch.gold))
        twice = Batch(source, target, both_gold, 0, ())
        other = real + batch.gold.numel()
        return self.loss(self.rows(twice, torch.cat((real, other))), gold)

    def at_once(self, batch: Batch) -> Tensor | None:
        """The loss by one kernel, gradient and all, where there is one for this model."""
        if self.precision != torch.float32:
            return None
        padding, smoothing = self.padding, self.smoothing
        return learned(self.model, batch, padding=padding, smoothing=smoothing, r_drop=self.r_drop)

    def rows(self, batch: Batch, real: Tensor) -> Tensor:
        """Hidden vectors (tokens, size) of the places that are not padding."""
        with self.autocast():
            return cast(Trainable, self.model).rows(batch.source, batch.target, real).float()

    def loss(self, hidden: Tensor, gold: Tensor) -> Tensor:
        weight, bias = cast(Trainable, self.model).output
        padding, smoothing = self.padding, self.smoothing
        if not self.r_drop:
            return smoothed_kl(hidden, weight, bias, gold, padding=padding, smoothing=smoothing)
        return twin_kl(hidden, weight, bias, gold, padding=padding, smoothing=smoothing, r_drop=self.r_drop)

    def autocast(self) -> AbstractContextManager[object]:
        if self.precision == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.precision)
