"""From settings to an optimiser and a rate."""

import torch
from torch import nn

from regard.config import TrainSettings
from regard.training import schedule
from regard.training.schedule import Schedule


def make_optimiser(model: nn.Module, train: TrainSettings) -> torch.optim.Optimizer:
    """Adam as the paper has it, or AdamW, whose decay leaves norms, biases and embeddings alone."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    matrices = [each for name, each in named if each.dim() > 1 and "embedding" not in name]
    rest = [each for name, each in named if each.dim() <= 1 or "embedding" in name]
    groups = [
        {"params": matrices, "weight_decay": train.weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if train.optimiser == "adamw" else torch.optim.Adam
    return kind(
        [group for group in groups if group["params"]],
        lr=train.rate,
        betas=(train.beta1, train.beta2),
        eps=train.epsilon,
        fused=True,
    )


def make_schedule(train: TrainSettings, d_model: int, total: float) -> Schedule:
    """The rate at each step; `total` is how many steps the budget is expected to allow."""
    match train.schedule:
        case "noam":
            return schedule.noam(d_model, train.warmup, train.rate)
        case "inverse-sqrt":
            return schedule.inverse_sqrt(train.rate, train.warmup)
        case "cosine":
            return schedule.cosine(train.rate, train.warmup, round(total))
        case "linear":
            return schedule.linear(train.rate, train.warmup, round(total))
        case "constant":
            return schedule.constant(train.rate, train.warmup)
