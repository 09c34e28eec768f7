"""From settings to an optimizer and a rate."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard.config.training import TrainConfig
from regard.training import schedules
from regard.training.lion import Lion
from regard.training.muon import Muon
from regard.training.schedules import Schedule

OPTIMISERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "muon": Muon, "lion": Lion}

THRESHOLD_RATE = 0.02
"""The highest rate of thresholds of pruning."""


def make_optimizer(model: nn.Module, train: TrainConfig) -> torch.optim.Optimizer:
    """Adam as the paper has it, AdamW, Muon or Lion; weight decay leaves norms, biases and embeddings alone."""
    learned = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    named = [(name, each) for name, each in learned if not name.endswith("thresholds")]
    matrices = [each for name, each in named if each.dim() > 1 and not is_table(name)]
    rest = [each for name, each in named if each.dim() <= 1 or is_table(name)]
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": train.weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    kind: Callable[..., torch.optim.Optimizer] = OPTIMISERS[train.optimizer]
    if kind is Muon:
        groups = hidden_apart(groups, model)
    thresholds = [each for name, each in learned if name.endswith("thresholds")]
    # A weight moves by thousandths, a threshold by hundredths, at whatever rate weights move.
    groups.append({"params": thresholds, "weight_decay": 0.0, "pace": THRESHOLD_RATE / train.lr})
    adam_options = {} if kind is Lion else {"eps": train.epsilon, "fused": True}
    return kind(
        [group for group in groups if group["params"]],
        lr=train.lr,
        betas=(train.beta1, train.beta2),
        **adam_options,
    )


def is_table(name: str) -> bool:
    """Whether a parameter holds vectors that are looked up: of words, or of places."""
    return "embedding" in name or name.endswith("position.table")


def hidden_apart(groups: list[dict[str, Any]], model: nn.Module) -> list[dict[str, Any]]:
    """The same groups, with the matrices between embeddings and output marked for Muon."""
    ends = {id(each) for name, each in model.named_parameters() if "output_weight" in name}
    matrices, rest = groups
    hidden = [each for each in matrices["params"] if each.dim() == 2 and id(each) not in ends]
    other = [each for each in matrices["params"] if each.dim() != 2 or id(each) in ends]
    return [{**matrices, "params": hidden, "orthogonal": True}, {**matrices, "params": other}, rest]


def make_schedule(train: TrainConfig, d_model: int, total: float) -> Schedule:
    """The rate at each step; `total` is how many steps the budget is expected to allow."""
    match train.schedule:
        case "noam":
            return schedules.noam(d_model, train.warmup, train.lr)
        case "inverse-sqrt":
            return schedules.inverse_sqrt(train.lr, train.warmup)
        case "cosine":
            return schedules.cosine(train.lr, train.warmup, round(total))
        case "linear":
            return schedules.linear(train.lr, train.warmup, round(total))
        case "constant":
            return schedules.constant(train.lr, train.warmup)
