"""Averages of weights: a model smoother than any single step of its training."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.config.training import TrainConfig
from regard.training.sharding import is_sharded, own, part_of, whole

Weights = dict[str, Tensor]


class Average:
    """The weights to validate and keep: exponential average, mean of the last validations, or the latest."""

    def __init__(self, model: nn.Module, train: TrainConfig, kept: nn.Module | None = None) -> None:
        self.model, self.train, self.kept = model, train, kept
        self.steps = 0
        self.exponential = copy_of(model) if train.averaging == "exponential" else {}
        self.last: deque[Weights] = deque(maxlen=train.average_last)

    @torch.no_grad()
    def after_step(self) -> None:
        """Move the exponential average towards the weights; faster in the first steps, so it does not lag."""
        self.steps += 1
        if self.exponential:
            decay = min(self.train.ema_decay, (1 + self.steps) / (10 + self.steps))
            now = dict(self.model.named_parameters())
            torch._foreach_lerp_(
                [own(each) for each in self.exponential.values()],
                [own(now[name]) for name in self.exponential],
                1 - decay,
            )

    def before_validation(self) -> None:
        """Remember the weights for the mean of the last validations."""
        if self.train.averaging == "last":
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
        """The model with the averaged weights inside the block, with its own after it.

        All processes put the weights of a sharded model together; the first one has them, in the model it kept.
        """
        averaged = self.weights()
        if is_sharded(self.model):
            for name, each in self.model.named_parameters():
                full = whole(averaged.get(name, each.detach()))
                if self.kept is not None:
                    fill(self.kept, {name: full})
            yield self.kept or self.model
            return
        before = copy_of(self.model)
        fill(self.model, averaged)
        try:
            yield self.model
        finally:
            fill(self.model, before)


def copy_of(model: nn.Module) -> Weights:
    return {name: each.detach().clone() for name, each in model.named_parameters()}


@torch.no_grad()
def fill(model: nn.Module, weights: Weights) -> None:
    parameters = dict(model.named_parameters())
    for name, weight in weights.items():
        parameters[name].copy_(part_of(weight, parameters[name]))
