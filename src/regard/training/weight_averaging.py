"""Weight averaging: exponential moving average (EMA), or the mean of the last validations' weights."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.config.training import TrainConfig
from regard.training.sharding import full_tensor, is_sharded, local_tensor, shard_like

Weights = dict[str, Tensor]
"""Parameters by name."""


class WeightAverage:
    """The weights to validate and save: EMA, mean of the last validations, or the latest.

    Args:
        model: The model in training.
        train: Which average, and its decay or length.
        full_model: Where the model is sharded, the first process's full copy.
    """

    def __init__(self, model: nn.Module, train: TrainConfig, full_model: nn.Module | None = None) -> None:
        self.model, self.train, self.full_model = model, train, full_model
        self.steps = 0
        self.exponential = clone_weights(model) if train.averaging == "exponential" else {}
        self.last: deque[Weights] = deque(maxlen=train.average_last)

    @torch.no_grad()
    def after_step(self) -> None:
        """Update the EMA; with a smaller decay in the first steps, so that it does not lag behind."""
        self.steps += 1
        if self.exponential:
            decay = min(self.train.ema_decay, (1 + self.steps) / (10 + self.steps))
            parameters = dict(self.model.named_parameters())
            torch._foreach_lerp_(
                [local_tensor(average) for average in self.exponential.values()],
                [local_tensor(parameters[name]) for name in self.exponential],
                1 - decay,
            )

    def before_validation(self) -> None:
        """Store the weights for the mean of the last validations."""
        if self.train.averaging == "last":
            self.last.append(clone_weights(self.model))

    def weights(self) -> Weights:
        """The averaged parameters by name; empty where there is no average."""
        if self.exponential:
            return self.exponential
        if self.last:
            return {
                name: torch.stack([weights[name] for weights in self.last]).mean(0) for name in self.last[0]
            }
        return {}

    @contextmanager
    def applied(self) -> Iterator[nn.Module]:
        """The model with the averaged weights inside the block, with its own after it.

        All processes gather the weights of a sharded model; the first one yields its full copy.
        """
        averaged = self.weights()
        if is_sharded(self.model):
            for name, parameter in self.model.named_parameters():
                weight = full_tensor(averaged.get(name, parameter.detach()))
                if self.full_model is not None:
                    copy_weights({name: weight}, self.full_model)
            yield self.full_model or self.model
            return
        original = clone_weights(self.model)
        copy_weights(averaged, self.model)
        try:
            yield self.model
        finally:
            copy_weights(original, self.model)


def clone_weights(model: nn.Module) -> Weights:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@torch.no_grad()
def copy_weights(weights: Weights, model: nn.Module) -> None:
    """Copy weights into the model's parameters of the same names; sharded where the model is."""
    parameters = dict(model.named_parameters())
    for name, weight in weights.items():
        parameters[name].copy_(shard_like(weight, parameters[name]))
