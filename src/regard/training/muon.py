"""Muon (Jordan et al. 2024): the update of a matrix is turned into the nearest one that stretches no direction.

Momentum mostly points in few directions; made orthogonal, it moves in all of them at the same speed, so that
fewer steps do. Vectors, embeddings and the output table are left to Adam.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from regard.engine.ops import orthogonalize
from regard.training.sharding import as_part, own, part_of, whole

ROUNDS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial that drives singular values towards 1, quickly rather than exactly (Jordan et al.)."""
LIKE_ADAM = 0.2
"""The size of an element of Adam's update, as a rule: one rate then serves both (Liu et al. 2025)."""


class Muon(torch.optim.Adam):
    """Adam, but for the groups with `orthogonal`, whose matrices are updated by Muon at the same rate."""

    def __init__(self, groups: Iterable[dict[str, Any]], momentum: float = 0.95, **options: Any) -> None:
        super().__init__([{"orthogonal": False, **group} for group in groups], **options)
        self.momentum = momentum

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            if group["orthogonal"]:
                self.turn(group)
        return super().step(closure)  # leaves alone what has no gradient any more

    def turn(self, group: dict[str, Any]) -> None:
        """Update the matrices of a group, those of one shape together."""
        by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for each in group["params"]:
            if each.grad is not None:
                by_shape[each.shape].append(each)
        for shape, matrices in by_shape.items():
            gradients = [own(each.grad) for each in matrices if each.grad is not None]
            moving = [own(self.momentum_of(each)) for each in matrices]
            torch._foreach_lerp_(moving, gradients, 1 - self.momentum)
            ahead = torch._foreach_lerp(gradients, moving, self.momentum)  # as Nesterov looks
            updates = orthogonal(
                torch.stack([whole(as_part(x, each)) for x, each in zip(ahead, matrices, strict=True)])
            )
            scale = group["lr"] * LIKE_ADAM * max(shape) ** 0.5
            mine = [own(each) for each in matrices]
            if group["weight_decay"]:
                torch._foreach_mul_(mine, 1 - group["lr"] * group["weight_decay"])
            cut = [own(part_of(x, each)) for x, each in zip(updates.unbind(), matrices, strict=True)]
            torch._foreach_add_(mine, cut, alpha=-scale)
            for each in matrices:
                each.grad = None

    def momentum_of(self, matrix: Tensor) -> Tensor:
        state = self.state[matrix]
        if not state:
            state["step"] = torch.zeros(())  # Adam, when it reads a state, asks each parameter for it
            state["momentum"] = torch.zeros_like(matrix)
        momentum: Tensor = state["momentum"]
        return momentum


def orthogonal(x: Tensor) -> Tensor:
    """(matrices, rows, columns) -> nearly the orthogonal factor of each: singular values from 0.7 to 1.2."""
    tall = x.size(1) > x.size(2)
    x = x.mT if tall else x
    x = (x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)).contiguous()
    x = orthogonalize(x, ROUNDS, COEFFICIENTS)
    return x.mT if tall else x
