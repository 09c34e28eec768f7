"""Lion against its formula, number by number; state that survives a checkpoint."""

import copy
import math

import pytest
import torch
from torch import nn

from regard.config.models import TransformerConfig
from regard.config.training import TrainConfig
from regard.nn.build import build
from regard.tasks.registry import load_recipe
from regard.tasks.translation.config import TranslationTrainConfig
from regard.training.optimizers import Lion, make_optimizer

BETAS = (0.9, 0.99)


def by_hand(weights: list[float], gradients: list[list[float]], lr: float, decay: float) -> list[float]:
    """Algorithm 2 of the paper, in Python's numbers."""
    momenta = [0.0] * len(weights)
    for gradient in gradients:
        for i, g in enumerate(gradient):
            direction = BETAS[0] * momenta[i] + (1 - BETAS[0]) * g
            sign = math.copysign(1.0, direction) if direction else 0.0
            weights[i] -= lr * (sign + decay * weights[i])
            momenta[i] = BETAS[1] * momenta[i] + (1 - BETAS[1]) * g
    return weights


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_steps_follow_the_formula(decay: float) -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(6, dtype=torch.float64))
    gradients = torch.randn(20, 6, dtype=torch.float64)
    gradients[:, 0] = 0.0  # no gradient, no direction
    expected = by_hand(weight.tolist(), gradients.tolist(), 0.1, decay)
    optimizer = Lion([{"params": [weight], "weight_decay": decay}], lr=0.1, betas=BETAS)
    for gradient in gradients:
        weight.grad = gradient
        optimizer.step()
    torch.testing.assert_close(weight, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


def test_every_weight_changes_by_the_learning_rate_for_any_gradient() -> None:
    weight = nn.Parameter(torch.zeros(3))
    optimizer = Lion([{"params": [weight]}], lr=0.01)
    weight.grad = torch.tensor([1e-8, -1e8, 0.0])
    optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.tensor([-0.01, 0.01, 0.0]))


def test_direction_and_momentum_weigh_gradients_differently() -> None:
    weight = nn.Parameter(torch.zeros(1))
    optimizer = Lion([{"params": [weight]}], lr=1.0, betas=BETAS)
    for gradient in (10.0, -0.5):  # momentum 0.1; 0.9 * 0.1 - 0.1 * 0.5 = 0.04: still positive
        weight.grad = torch.tensor([gradient])
        optimizer.step()
    assert weight.item() == -2.0
    assert optimizer.state[weight]["momentum"].item() == pytest.approx(0.99 * 0.1 - 0.01 * 0.5)


def test_a_parameter_without_a_gradient_is_unchanged_and_has_no_state() -> None:
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = Lion([{"params": [used, unused], "weight_decay": 0.5}], lr=0.1)
    used.grad = torch.ones(2)
    optimizer.step()
    assert unused.tolist() == [1.0, 1.0]
    assert unused not in optimizer.state


def test_recipes_select_lion_and_norms_biases_and_embeddings_do_not_decay() -> None:
    train = load_recipe("picturebook", {"train.optimizer": "lion", "train.weight_decay": 0.1}).train
    assert isinstance(train, TrainConfig)
    model = build(TransformerConfig(size="tiny", tie_embeddings="none"), 50, 50, 0)
    optimizer = make_optimizer(model, train)
    assert type(optimizer) is Lion
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decayed = {
        names[id(parameter)]
        for group in optimizer.param_groups
        if group["weight_decay"]
        for parameter in group["params"]
    }
    assert decayed
    assert not [name for name in decayed if "norm" in name or "bias" in name or "embedding" in name]
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(names)


def test_a_restored_state_gives_the_same_next_step() -> None:
    def make_layer() -> tuple[nn.Linear, torch.optim.Optimizer]:
        torch.manual_seed(4)
        layer = nn.Linear(8, 8)
        settings = TranslationTrainConfig(steps=1, optimizer="lion", weight_decay=0.1)
        return layer, make_optimizer(layer, settings)

    (layer, optimizer), (copied, copied_optimizer) = make_layer(), make_layer()
    for _ in range(3):
        layer(torch.ones(2, 8)).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    copied.load_state_dict(layer.state_dict())
    copied_optimizer.load_state_dict(
        copy.deepcopy(optimizer.state_dict())
    )  # as from a file: no tensor is shared
    for trained, stepped in ((layer, optimizer), (copied, copied_optimizer)):
        trained(torch.ones(2, 8)).pow(2).sum().backward()
        stepped.step()
    assert torch.equal(layer.weight, copied.weight)
    assert torch.equal(layer.bias, copied.bias)
