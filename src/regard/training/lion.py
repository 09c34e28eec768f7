"""Lion (Chen et al. 2023): every weight moves by the learning rate, in the direction of its momentum's sign."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from regard.training.sharding import own


class Lion(torch.optim.Optimizer):
    """EvoLved Sign Momentum, algorithm 2 of "Symbolic Discovery of Optimization Algorithms".

    With the gradient g and the momentum m, which begins at zero:

        w <- w - lr (sign(beta1 m + (1 - beta1) g) + weight_decay w)
        m <- beta2 m + (1 - beta2) g

    It stores one number a weight where Adam stores two. At the same rate its steps are larger than Adam's, so
    the paper takes a learning rate 3 to 10 times smaller, and a weight decay as many times larger.

    Args:
        groups: Parameter groups, each with its own `weight_decay`.
        lr: Learning rate.
        betas: How much of the momentum counts in the direction, and how much of it stays.
        weight_decay: Decoupled, for groups that have none of their own.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # nothing is evaluated again
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                continue
            beta1, beta2 = group["betas"]
            weights = [own(parameter) for parameter in parameters]
            gradients = [own(parameter.grad) for parameter in parameters]
            momenta = [own(self.momentum_of(parameter)) for parameter in parameters]
            directions = torch._foreach_lerp(momenta, gradients, 1 - beta1)
            torch._foreach_sign_(directions)
            if group["weight_decay"]:
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(weights, directions, alpha=-group["lr"])
            torch._foreach_lerp_(momenta, gradients, 1 - beta2)

    def momentum_of(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum: Tensor = state["momentum"]
        return momentum
