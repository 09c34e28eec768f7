"""Muon against its definition: singular values near 1, Adam for the rest, state that survives a checkpoint."""

import copy

import pytest
import torch
from torch import nn

from regard.config.models import TransformerConfig
from regard.engine.library import kernels
from regard.engine.ops import orthogonalize
from regard.nn.build import build
from regard.tasks.translation.config import TranslationTrainConfig
from regard.training.muon import COEFFICIENTS, LIKE_ADAM, ROUNDS, Muon, orthogonal
from regard.training.optimizers import make_optimizer


def test_updates_stretch_no_direction() -> None:
    torch.manual_seed(0)
    for rows, columns in ((32, 32), (64, 16), (16, 64)):
        skewed = torch.randn(3, rows, columns) * torch.logspace(0, -2, columns)
        values = torch.linalg.svdvals(orthogonal(skewed))
        assert float(values.max()) < 1.3
        assert float(values.median()) > 0.6


@pytest.mark.skipif(kernels() is None, reason="there is no compiled library")
@pytest.mark.parametrize("shape", [(1, 8, 8), (5, 24, 40), (3, 20, 20), (2, 16, 130)])
def test_the_kernel_equals_its_twin(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(5)
    x = torch.randn(shape)
    scaled = x / x.norm(dim=(1, 2), keepdim=True)
    twin = orthogonalize(scaled.double(), ROUNDS, COEFFICIENTS)  # PyTorch computes in float64
    assert torch.allclose(orthogonalize(scaled, ROUNDS, COEFFICIENTS), twin.float(), atol=1e-4)


def test_directions_stay() -> None:
    torch.manual_seed(1)
    matrix = torch.randn(1, 24, 24)
    u, _, v = torch.linalg.svd(matrix[0])
    assert torch.allclose(u.T @ orthogonal(matrix)[0] @ v.T, torch.eye(24), atol=0.35)


def test_one_step_by_hand() -> None:
    torch.manual_seed(2)
    weight, bias = nn.Parameter(torch.randn(4, 8)), nn.Parameter(torch.zeros(4))
    optimizer = Muon(
        [{"params": [weight], "orthogonal": True, "weight_decay": 0.0}, {"params": [bias], "weight_decay": 0.0}],
        lr=0.1, betas=(0.9, 0.98), eps=1e-9,
    )  # fmt: skip
    before, gradient = weight.detach().clone(), torch.randn(4, 8)
    weight.grad, bias.grad = gradient.clone(), torch.tensor([1.0, -1.0, 2.0, -2.0])
    optimizer.step()
    # Nesterov on a momentum that begins at zero: 0.05 g + 0.95 (0.05 g), a multiple of g.
    expected = before - 0.1 * LIKE_ADAM * 8**0.5 * orthogonal(gradient.unsqueeze(0))[0]
    assert torch.allclose(weight, expected, atol=1e-4)
    assert torch.allclose(bias, torch.tensor([-0.1, 0.1, -0.1, 0.1]), atol=1e-6)  # Adam's first step


def test_embeddings_norms_and_biases_are_left_to_adam() -> None:
    model = build(TransformerConfig(size="tiny", tie_embeddings="none"), 50, 50, 0)
    optimizer = make_optimizer(model, TranslationTrainConfig(steps=1, optimizer="muon"))
    turned = {id(each) for group in optimizer.param_groups if group["orthogonal"] for each in group["params"]}
    names = {name for name, each in model.named_parameters() if id(each) in turned}
    assert names == {
        name
        for name, each in model.named_parameters()
        if each.dim() == 2 and "embedding" not in name and "output_weight" not in name
    }
    every = [each for group in optimizer.param_groups for each in group["params"]]
    assert len(every) == len(list(model.parameters()))


def test_state_is_saved_and_read() -> None:
    torch.manual_seed(3)

    def made() -> tuple[nn.Linear, torch.optim.Optimizer]:
        torch.manual_seed(4)
        layer = nn.Linear(8, 8)
        return layer, make_optimizer(layer, TranslationTrainConfig(steps=1, optimizer="muon"))

    (one, first), (other, second) = made(), made()
    for _ in range(3):
        one(torch.ones(2, 8)).pow(2).sum().backward()
        first.step()
        first.zero_grad()
    other.load_state_dict(one.state_dict())
    second.load_state_dict(copy.deepcopy(first.state_dict()))  # as from a file: no tensor is shared
    for layer, optimizer in ((one, first), (other, second)):
        layer(torch.ones(2, 8)).pow(2).sum().backward()
        optimizer.step()
    assert torch.equal(one.weight, other.weight)
    assert torch.equal(one.bias, other.bias)
