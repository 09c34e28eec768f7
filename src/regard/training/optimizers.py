"""Optimizers: Adam and AdamW by PyTorch, Lion and Muon; parameter groups from the settings."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from regard.config.training import TrainConfig
from regard.engine.ops import orthogonalize
from regard.training.sharding import full_tensor, local_tensor, shard_like, wrap_local

THRESHOLD_LR = 0.02
"""Peak learning rate of pruning thresholds."""


def make_optimizer(model: nn.Module, train: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer of a recipe; norms, biases and embeddings get no weight decay."""
    trainable = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    weights = [(name, parameter) for name, parameter in trainable if not name.endswith("thresholds")]
    matrices = [parameter for name, parameter in weights if parameter.dim() > 1 and not is_embedding(name)]
    rest = [parameter for name, parameter in weights if parameter.dim() <= 1 or is_embedding(name)]
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": train.weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    kind = OPTIMIZERS[train.optimizer]
    if kind is Muon:
        groups = muon_groups(groups, model)
    thresholds = [parameter for name, parameter in trainable if name.endswith("thresholds")]
    # A step changes a weight by thousandths, a threshold by hundredths, whatever the learning rate.
    groups.append({"params": thresholds, "weight_decay": 0.0, "lr_scale": THRESHOLD_LR / train.lr})
    adam_options = {} if kind is Lion else {"eps": train.epsilon, "fused": True}
    return kind(
        [group for group in groups if group["params"]],
        lr=train.lr,
        betas=(train.beta1, train.beta2),
        **adam_options,
    )


def is_embedding(name: str) -> bool:
    """Whether a parameter is a lookup table: token or position embeddings."""
    return "embedding" in name or name.endswith("position.table")


def muon_groups(groups: list[dict[str, Any]], model: nn.Module) -> list[dict[str, Any]]:
    """The groups with the matrices between embeddings and output layer marked as `orthogonal`, for Muon."""
    output = {id(parameter) for name, parameter in model.named_parameters() if "output_weight" in name}
    matrices, rest = groups
    hidden = [weight for weight in matrices["params"] if weight.dim() == 2 and id(weight) not in output]
    others = [weight for weight in matrices["params"] if weight.dim() != 2 or id(weight) in output]
    return [{**matrices, "params": hidden, "orthogonal": True}, {**matrices, "params": others}, rest]


class Lion(torch.optim.Optimizer):
    """EvoLved Sign Momentum (Chen et al. 2023), algorithm 2.

    With the gradient g and the momentum m, which is zero at first:

        w <- w - lr (sign(beta1 m + (1 - beta1) g) + weight_decay w)
        m <- beta2 m + (1 - beta2) g

    It stores one number per weight where Adam stores two. At the same learning rate its steps are larger than
    Adam's: the paper uses a learning rate 3 to 10 times smaller, and a weight decay as many times larger.

    Args:
        groups: Parameter groups, each with its own `weight_decay`.
        lr: Learning rate.
        betas: Weight of the momentum in the update direction, and its decay.
        weight_decay: Decoupled weight decay, for groups without their own.
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
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # closures are not supported
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                continue
            beta1, beta2 = group["betas"]
            weights = [local_tensor(parameter) for parameter in parameters]
            gradients = [local_tensor(parameter.grad) for parameter in parameters]
            momenta = [local_tensor(self._momentum(parameter)) for parameter in parameters]
            directions = torch._foreach_lerp(momenta, gradients, 1 - beta1)
            torch._foreach_sign_(directions)
            if group["weight_decay"]:
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(weights, directions, alpha=-group["lr"])
            torch._foreach_lerp_(momenta, gradients, 1 - beta2)

    def _momentum(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum: Tensor = state["momentum"]
        return momentum


NEWTON_SCHULZ_STEPS = 5
NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial that moves singular values towards 1, quickly rather than exactly (Jordan et al. 2024)."""
ADAM_UPDATE_RMS = 0.2
"""Typical size of an element of Adam's update; with it one learning rate serves both (Liu et al. 2025)."""


class Muon(torch.optim.Adam):
    """Muon (Jordan et al. 2024) for groups with `orthogonal`, Adam for the others, with one learning rate.

    The update of a matrix is its Nesterov momentum made orthogonal, so that no few directions dominate.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], momentum: float = 0.95, **options: Any) -> None:
        super().__init__([{"orthogonal": False, **group} for group in groups], **options)
        self.momentum = momentum

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            if group["orthogonal"]:
                self._muon_step(group)
        return super().step(closure)  # Adam skips parameters whose gradient is None

    def _muon_step(self, group: dict[str, Any]) -> None:
        """Update the matrices of a group, those of the same shape in one batch."""
        by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for weight in group["params"]:
            if weight.grad is not None:
                by_shape[weight.shape].append(weight)
        for shape, matrices in by_shape.items():
            gradients = [local_tensor(weight.grad) for weight in matrices if weight.grad is not None]
            momenta = [local_tensor(self._momentum(weight)) for weight in matrices]
            torch._foreach_lerp_(momenta, gradients, 1 - self.momentum)
            nesterov = torch._foreach_lerp(gradients, momenta, self.momentum)
            updates = orthogonal(
                torch.stack(
                    [
                        full_tensor(wrap_local(direction, weight))
                        for direction, weight in zip(nesterov, matrices, strict=True)
                    ]
                )
            )
            scale = group["lr"] * ADAM_UPDATE_RMS * max(shape) ** 0.5
            local_weights = [local_tensor(weight) for weight in matrices]
            if group["weight_decay"]:
                torch._foreach_mul_(local_weights, 1 - group["lr"] * group["weight_decay"])
            local_updates = [
                local_tensor(shard_like(update, weight))
                for update, weight in zip(updates.unbind(), matrices, strict=True)
            ]
            torch._foreach_add_(local_weights, local_updates, alpha=-scale)
            for weight in matrices:
                weight.grad = None

    def _momentum(self, matrix: Tensor) -> Tensor:
        state = self.state[matrix]
        if not state:
            state["step"] = torch.zeros(())  # Adam's `load_state_dict` requires it of every parameter
            state["momentum"] = torch.zeros_like(matrix)
        momentum: Tensor = state["momentum"]
        return momentum


def orthogonal(x: Tensor) -> Tensor:
    """Approximate orthogonal factors of matrices (batch, rows, columns): singular values from 0.7 to 1.2."""
    is_tall = x.size(1) > x.size(2)
    x = x.mT if is_tall else x
    x = (x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)).contiguous()
    x = orthogonalize(x, NEWTON_SCHULZ_STEPS, NEWTON_SCHULZ_COEFFICIENTS)
    return x.mT if is_tall else x


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "muon": Muon,
    "lion": Lion,
}
