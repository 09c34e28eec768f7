"""The loss in blocks against its plain twin."""

import pytest
import torch

from regard.engine import loss as engine_loss
from regard.engine.loss import linear_cross_entropy
from regard.training.objectives import SmoothedKL

PAD = 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("rows", [1, 3, 8, 100])
def test_value_and_gradients_equal_the_plain_twin(
    monkeypatch: pytest.MonkeyPatch, smoothing: float, rows: int
) -> None:
    monkeypatch.setattr(engine_loss, "ROWS", rows)
    torch.manual_seed(0)
    hidden = torch.randn(8, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 5, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(11, dtype=torch.float64, requires_grad=True)
    gold = torch.tensor([0, 1, 3, 4, 5, 10, 9, 3])
    ours = linear_cross_entropy(hidden, weight, bias, gold, padding=PAD, smoothing=smoothing)
    ours_gradients = torch.autograd.grad(ours * 0.3, (hidden, weight, bias))
    plain = SmoothedKL(11, PAD, smoothing)(hidden @ weight.T + bias, gold)
    plain_gradients = torch.autograd.grad(plain * 0.3, (hidden, weight, bias))
    assert torch.allclose(ours, plain, atol=1e-6)
    for one, other in zip(ours_gradients, plain_gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_without_gradients_it_only_adds_up() -> None:
    hidden, weight, bias = torch.randn(4, 5), torch.randn(9, 5), torch.zeros(9)
    with torch.no_grad():
        loss = linear_cross_entropy(
            hidden, weight, bias, torch.tensor([0, 1, 3, 4]), padding=PAD, smoothing=0.1
        )
    assert loss.item() == pytest.approx(
        SmoothedKL(9, PAD)(hidden @ weight.T, torch.tensor([0, 1, 3, 4])).item(), abs=1e-4
    )


@pytest.mark.parametrize("vocabulary", [4, 5, 7, 64])
def test_finite_for_every_vocabulary(vocabulary: int) -> None:
    torch.manual_seed(0)
    hidden = (100 * torch.randn(6, 3)).requires_grad_()
    gold = torch.tensor([0, 1, 3, 0, 1, 3])
    loss = linear_cross_entropy(
        hidden, torch.randn(vocabulary, 3), torch.zeros(vocabulary), gold, padding=PAD, smoothing=0.1
    )
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(hidden.grad).all()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_two_passes_kept_close_equal_the_formula(kind: torch.dtype) -> None:
    """Wu et al. 2021, eq. 2 and 3, with autograd; in float32 by the kernel, in float64 by its twin."""
    torch.manual_seed(0)
    words, tokens = 23, 700  # more than one block
    hidden = torch.randn(2 * tokens, 8, dtype=kind, requires_grad=True)
    weight, bias = (torch.randn(words, *size, dtype=kind, requires_grad=True) for size in ((8,), ()))
    gold = torch.randint(0, words, (tokens,))
    gold[gold == PAD] = PAD + 1
    ours = linear_cross_entropy(hidden, weight, bias, gold, padding=PAD, smoothing=0.1, r_drop=3.0)
    scores = hidden @ weight.T + bias
    p, q = (torch.log_softmax(each, -1) for each in scores.split(tokens))
    likelihood = sum(SmoothedKL(words, PAD, 0.1)(each, gold) for each in scores.split(tokens)) / 2
    plain = likelihood + 3.0 * ((p.exp() - q.exp()) * (p - q)).sum() / 2
    assert torch.allclose(ours, plain, rtol=1e-5)
    wanted = (hidden, weight, bias)
    for one, other in zip(torch.autograd.grad(ours, wanted), torch.autograd.grad(plain, wanted), strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_without_a_bias(r_drop: float) -> None:
    torch.manual_seed(1)
    hidden, weight = torch.randn(12, 8, requires_grad=True), torch.randn(23, 8, requires_grad=True)
    labels = torch.randint(3, 23, (6 if r_drop else 12,))
    given, zero = (hidden, weight), torch.zeros(23)
    ours, theirs = (
        linear_cross_entropy(hidden, weight, bias, labels, padding=PAD, smoothing=0.1, r_drop=r_drop)
        for bias in (None, zero)
    )
    assert ours == theirs
    for one, other in zip(torch.autograd.grad(ours, given), torch.autograd.grad(theirs, given), strict=True):
        assert torch.equal(one, other)
