"""Averages of weights: a model smoother than any single step of its training."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.config import TrainSettings

Weights = dict[str, Tensor]


class Average:
    """The weights to validate and keep: exponential average, mean of the last validations, or the latest."""

    def __init__(self, model: nn.Module, train: TrainSettings) -> None:
        self.model, self.train = model, train
        self.steps = 0
        self.exponential = copy_of(model) if train.average == "exponential" else {}
        self.last: deque[Weights] = deque(maxlen=train.average_last)

    @torch.no_grad()
    def after_step(self) -> None:
        """Move the exponential average towards the weights; in the first steps faster, lest it stay behind."""
        self.steps += 1
        if self.exponential:
            decay = min(self.train.decay, (1 + self.steps) / (10 + self.steps))
            now = dict(self.model.named_parameters())
            torch._foreach_lerp_(
                list(self.exponential.values()), [now[name] for name in self.exponential], 1 - decay
            )

    def before_validation(self) -> None:
        """Remember the weights for the mean of the last validations."""
        if self.train.average == "last":
            self.last.append(copy_of(self.model))

    def weights(self) -> Weights:
        """The averaged parameters by name; empty where there is no average."""
        if self.exponential:
            return self.exponential
        if self.last:
            return {name: torch.stack([each[name] for each in self.last]).mean(0) for name in self.last[0]}
        return {}

    @contextmanager
    def applied(self) -> Iterator[nn.Module]:
        """The model with the averaged weights inside the block, with its own after it."""
        own = copy_of(self.model)
        fill(self.model, self.weights())
        try:
            yield self.model
        finally:
            fill(self.model, own)


def copy_of(model: nn.Module) -> Weights:
    return {name: each.detach().clone() for name, each in model.named_parameters()}


@torch.no_grad()
def fill(model: nn.Module, weights: Weights) -> None:
    parameters = dict(model.named_parameters())
    for name, weight in weights.items():
        parameters[name].copy_(weight)
