"""Label smoothing against its formula."""

import math

import pytest
import torch
from torch.nn import functional

from regard.training.objectives import SmoothedKL, smoothed_targets


def test_smoothed_targets_are_the_formula() -> None:
    target = smoothed_targets(torch.tensor([[3, 1, 2]]), vocabulary=6, smoothing=0.4, padding=2)
    expected = [[0.1, 0.1, 0, 0.6, 0.1, 0.1], [0.1, 0.6, 0, 0.1, 0.1, 0.1], [0] * 6]
    assert target[0].tolist() == [pytest.approx(row) for row in expected]


def test_the_loss_equals_the_divergence_computed_by_hand() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(2, 4, 9, dtype=torch.float64), torch.randint(0, 9, (2, 4))
    labels[1, 2:] = 2
    total = 0.0
    for row, token in zip(logits.view(-1, 9), labels.view(-1), strict=True):
        if token == 2:
            continue
        log_q = functional.log_softmax(row, -1)
        for word in range(9):
            p = 0.9 if word == token else 0.0 if word == 2 else 0.1 / 7
            total += p * (math.log(p) - float(log_q[word])) if p else 0.0
    assert float(SmoothedKL(9, padding=2)(logits, labels)) == pytest.approx(total, abs=1e-6)


def test_without_smoothing_it_is_cross_entropy() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(5, 7), torch.tensor([0, 1, 6, 3, 2])
    expected = functional.cross_entropy(logits, labels, ignore_index=2, reduction="sum")
    assert float(SmoothedKL(7, padding=2, smoothing=0.0)(logits, labels)) == pytest.approx(
        float(expected), abs=1e-5
    )


@pytest.mark.parametrize("vocabulary", [4, 5, 6, 10, 1000])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_the_loss_is_finite_for_every_vocabulary(vocabulary: int, scale: float) -> None:
    torch.manual_seed(0)
    logits = (scale * torch.randn(8, vocabulary)).requires_grad_()
    labels = torch.arange(8) % vocabulary
    loss = SmoothedKL(vocabulary, padding=2)(logits, labels)
    loss.backward()
    assert math.isfinite(loss.item())
    assert torch.isfinite(logits.grad).all()


def test_padding_has_no_gradient_and_no_target() -> None:
    logits = torch.randn(3, 5, requires_grad=True)
    SmoothedKL(5, padding=2)(logits, torch.tensor([2, 1, 2])).backward()
    assert torch.equal(logits.grad[[0, 2]], torch.zeros(2, 5))
    assert logits.grad[1].abs().sum() > 0
