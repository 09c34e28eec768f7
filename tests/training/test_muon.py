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
from regard.training.optimizers import (
    ADAM_UPDATE_RMS,
    NEWTON_SCHULZ_COEFFICIENTS,
    NEWTON_SCHULZ_STEPS,
    Muon,
    make_optimizer,
    orthogonal,
)


def test_singular_values_of_updates_are_near_one() -> None:
    torch.manual_seed(0)
    for rows, columns in ((32, 32), (64, 16), (16, 64)):
        skewed = torch.randn(3, rows, columns) * torch.logspace(0, -2, columns)
        values = torch.linalg.svdvals(orthogonal(skewed))
        assert float(values.max()) < 1.3
        assert float(values.median()) > 0.6


@pytest.mark.skipif(kernels() is None, reason="there is no compiled library")
@pytest.mark.parametrize("shape", [(1, 8, 8), (5, 24, 40), (3, 20, 20), (2, 16, 130)])
def test_the_kernel_equals_the_reference(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(5)
    x = torch.randn(shape)
    scaled = x / x.norm(dim=(1, 2), keepdim=True)
    reference = orthogonalize(
        scaled.double(), NEWTON_SCHULZ_STEPS, NEWTON_SCHULZ_COEFFICIENTS
    )  # PyTorch computes in float64
    assert torch.allclose(
        orthogonalize(scaled, NEWTON_SCHULZ_STEPS, NEWTON_SCHULZ_COEFFICIENTS), reference.float(), atol=1e-4
    )


def test_singular_vectors_are_kept() -> None:
    torch.manual_seed(1)
    matrix = torch.randn(1, 24, 24)
    u, _, v = torch.linalg.svd(matrix[0])
    assert torch.allclose(u.T @ orthogonal(matrix)[0] @ v.T, torch.eye(24), atol=0.35)


def test_the_first_step_is_the_formula() -> None:
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
    expected = before - 0.1 * ADAM_UPDATE_RMS * 8**0.5 * orthogonal(gradient.unsqueeze(0))[0]
    assert torch.allclose(weight, expected, atol=1e-4)
    assert torch.allclose(bias, torch.tensor([-0.1, 0.1, -0.1, 0.1]), atol=1e-6)  # Adam's first step


def test_embeddings_norms_and_biases_are_left_to_adam() -> None:
    model = build(TransformerConfig(size="tiny", tie_embeddings="none"), 50, 50, 0)
    optimizer = make_optimizer(model, TranslationTrainConfig(steps=1, optimizer="muon"))
    orthogonal_ids = {
        id(parameter)
        for group in optimizer.param_groups
        if group["orthogonal"]
        for parameter in group["params"]
    }
    names = {name for name, parameter in model.named_parameters() if id(parameter) in orthogonal_ids}
    assert names == {
        name
        for name, parameter in model.named_parameters()
        if parameter.dim() == 2 and "embedding" not in name and "output_weight" not in name
    }
    updated = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    assert len(updated) == len(list(model.parameters()))


def test_a_restored_state_gives_the_same_next_step() -> None:
    torch.manual_seed(3)

    def make_layer() -> tuple[nn.Linear, torch.optim.Optimizer]:
        torch.manual_seed(4)
        layer = nn.Linear(8, 8)
        return layer, make_optimizer(layer, TranslationTrainConfig(steps=1, optimizer="muon"))

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
