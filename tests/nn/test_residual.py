"""The residual path: pre and post as their formulas say."""

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck

from regard.nn import Residual


def parts() -> tuple[nn.Linear, nn.LayerNorm, Tensor]:
    torch.manual_seed(0)
    norm = nn.LayerNorm(6, dtype=torch.float64)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return nn.Linear(6, 6, dtype=torch.float64), norm, torch.randn(2, 3, 6, dtype=torch.float64)


def layer_norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """The norm written out."""
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    return (x - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def test_post_norm_is_the_norm_of_the_sum():
    linear, norm, x = parts()
    expected = layer_norm(x + x @ linear.weight.T + linear.bias, norm)
    torch.testing.assert_close(Residual(linear, norm, "post")(x), expected, rtol=0, atol=1e-10)


def test_pre_norm_leaves_the_path_itself_alone():
    linear, norm, x = parts()
    expected = x + layer_norm(x, norm) @ linear.weight.T + linear.bias
    torch.testing.assert_close(Residual(linear, norm, "pre")(x), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_dropout_is_applied_to_the_output_of_the_sublayer(placement):
    linear, norm, x = parts()
    residual, dropout = Residual(linear, norm, placement, dropout=0.5), nn.Dropout(0.5)
    torch.manual_seed(1)
    out = residual(x)
    torch.manual_seed(1)
    expected = x + dropout(linear(norm(x))) if placement == "pre" else norm(x + dropout(linear(x)))
    assert torch.equal(out, expected)
    residual.eval()
    without = Residual(linear, norm, placement)
    assert torch.equal(residual(x), without(x))


@pytest.mark.parametrize("placement", ["", "Pre", "before", None])
def test_another_placement_is_refused_by_name(placement):
    with pytest.raises(ValueError, match=f"norm placement is 'pre' or 'post', not {placement!r}"):
        Residual(nn.Identity(), nn.Identity(), placement)


def test_other_arguments_are_passed_to_the_sublayer():
    class Scale(nn.Module):
        def forward(self, x: Tensor, factor: float, *, shift: float) -> Tensor:
            return factor * x + shift

    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(Residual(Scale(), nn.Identity(), "pre")(x, 3.0, shift=1.0), 4 * x + 1)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_gradients_are_right(placement):
    linear, norm, x = parts()
    residual = Residual(linear, norm, placement)
    assert gradcheck(lambda x, *_: residual(x), (x[:1, :2].clone().requires_grad_(), *residual.parameters()))
