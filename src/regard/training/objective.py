"""The loss of a batch of sentence pairs."""

from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches import Batch
from regard.models.interface import Trainable
from regard.training.blockloss import smoothed_kl


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
        # Counted before the batch goes to a GPU, which would have to be waited for.
        real = (batch.gold != self.padding).flatten().nonzero().squeeze(1)
        gold = batch.gold.flatten().index_select(0, real).to(self.device, non_blocking=True)
        real = real.to(self.device, non_blocking=True)
        batch = batch.to(self.device)
        if not self.r_drop:
            return self.divergence(self.rows(batch, real), gold)
        one, other = self.rows(batch, real), self.rows(batch, real)
        likelihood = (self.divergence(one, gold) + self.divergence(other, gold)) / 2
        return likelihood + self.r_drop * self.disagreement(one, other)

    def rows(self, batch: Batch, real: Tensor) -> Tensor:
        """Hidden vectors (tokens, size) of the places that are not padding."""
        with self.autocast():
            return cast(Trainable, self.model).rows(batch.source, batch.target, real).float()

    def divergence(self, hidden: Tensor, gold: Tensor) -> Tensor:
        weight, bias = cast(Trainable, self.model).output
        return smoothed_kl(hidden, weight, bias, gold, padding=self.padding, smoothing=self.smoothing)

    def disagreement(self, one: Tensor, other: Tensor) -> Tensor:
        """Half of KL(p, q) + KL(q, p) between the two passes, summed over tokens (Wu et al. 2021, eq. 2)."""
        output = cast(Trainable, self.model).output
        p = functional.log_softmax(functional.linear(one, *output), dim=-1)
        q = functional.log_softmax(functional.linear(other, *output), dim=-1)
        return ((p.exp() - q.exp()) * (p - q)).sum() / 2

    def autocast(self) -> AbstractContextManager[object]:
        if self.precision == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.precision)
