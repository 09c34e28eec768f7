"""The claim that an optimizer with a restored state makes the same next step."""

import copy

import torch
from torch import nn

from regard.config.training import TrainConfig
from regard.training.optimizers import make_optimizer


def assert_restored_state_continues(settings: TrainConfig) -> None:
    """Three steps, a copy of weights and state, and a fourth step of both."""

    def make_layer() -> tuple[nn.Linear, torch.optim.Optimizer]:
        torch.manual_seed(4)
        layer = nn.Linear(8, 8)
        return layer, make_optimizer(layer, settings)

    (layer, optimizer), (copied, copied_optimizer) = make_layer(), make_layer()
    for _ in range(3):
        layer(torch.ones(2, 8)).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    copied.load_state_dict(layer.state_dict())
    state = copy.deepcopy(optimizer.state_dict())  # as from a file: no tensor is shared
    copied_optimizer.load_state_dict(state)
    for trained, stepped in ((layer, optimizer), (copied, copied_optimizer)):
        trained(torch.ones(2, 8)).pow(2).sum().backward()
        stepped.step()
    assert torch.equal(layer.weight, copied.weight)
    assert torch.equal(layer.bias, copied.bias)
