"""The position-wise network against its formulas."""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from regard.nn import FeedForward

FORMULAS = {
    "relu": lambda x: max(0.0, x),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu-tanh": lambda x: x * 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + math.exp(-x)),
}
NAMES = [*FORMULAS, "swiglu"]


def network(activation: str) -> FeedForward:
    torch.manual_seed(0)
    made = FeedForward(4, 6, activation).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)  # the biases too
    return made


def apply(formula, x: Tensor) -> Tensor:
    return torch.tensor([[formula(v) for v in row] for row in x.tolist()], dtype=x.dtype)


@pytest.mark.parametrize("activation", list(FORMULAS))
def test_each_activation_is_its_formula(activation):
    made, x = network(activation), torch.randn(5, 4, dtype=torch.float64)
    wide = x @ made.fc1.weight.T + made.fc1.bias
    expected = apply(FORMULAS[activation], wide) @ made.fc2.weight.T + made.fc2.bias
    torch.testing.assert_close(made(x), expected, rtol=0, atol=1e-10)


def test_swiglu_is_gated_by_silu():
    made, x = network("swiglu"), torch.randn(5, 4, dtype=torch.float64)
    wide = x @ made.fc1.weight.T + made.fc1.bias
    gate = apply(FORMULAS["silu"], x @ made.gate.weight.T + made.gate.bias)
    expected = (gate * wide) @ made.fc2.weight.T + made.fc2.bias
    torch.testing.assert_close(made(x), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("activation", NAMES)
def test_each_token_thinks_by_itself(activation):
    made, x = network(activation), torch.randn(2, 5, 4, dtype=torch.float64)
    alone = torch.stack([made(x[:, i]) for i in range(5)], dim=1)
    torch.testing.assert_close(made(x), alone, rtol=0, atol=1e-10)


@pytest.mark.parametrize("activation", NAMES)
def test_the_gradients_are_right(activation):
    made, x = network(activation), torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x, *_: made(x), (x, *made.parameters()))


def test_only_swiglu_has_a_third_matrix_and_two_thirds_of_the_width_make_up_for_it():
    def weights(d_ff: int, activation: str) -> int:
        return sum(p.numel() for n, p in FeedForward(64, d_ff, activation).named_parameters() if "weight" in n)

    assert weights(96, "swiglu") == 3 * 64 * 96
    assert weights(96, "relu") == weights(96, "gelu") == weights(96, "silu") == 2 * 64 * 96
    assert weights(64, "swiglu") == weights(96, "relu")


def test_dropout_falls_on_the_wide_layer_while_training():
    torch.manual_seed(0)
    made = FeedForward(4, 4000, dropout=0.5)
    torch.nn.init.ones_(made.fc2.weight)
    torch.nn.init.zeros_(made.fc1.weight)
    torch.nn.init.ones_(made.fc1.bias)
    x = torch.zeros(1, 4)
    trained = made(x)
    # Every output component is the same sum over the wide layer: what is dropped is dropped for all of them.
    torch.testing.assert_close(trained, trained[:, :1].expand_as(trained))
    assert trained[0, 0].item() != 4000
    assert trained[0, 0].item() == pytest.approx(4000, abs=4 * math.sqrt(4000))
    made.eval()
    assert made(x)[0, 0].item() == pytest.approx(4000, rel=1e-5)


def test_another_activation_is_refused_with_the_known_ones():
    with pytest.raises(
        ValueError, match="unknown activation 'tanh'; allowed: relu, gelu, gelu-tanh, silu, swiglu"
    ):
        FeedForward(4, 6, "tanh")
