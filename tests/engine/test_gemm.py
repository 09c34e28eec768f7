"""Products by our own kernel: those of PyTorch, whatever the shapes, and a row has the same bits in any company."""

import pytest
import torch
from torch import Tensor

from regard.engine.library import data_ptr, library
from regard.engine.ops import linear_packed, prepack

ROWS = (0, 1, 2, 3, 5, 11, 24, 25, 97, 193, 400)
RELU, ACCUMULATE = 1, 2


@pytest.mark.parametrize("out", [1, 15, 32, 49, 130])
@pytest.mark.parametrize("inside", [1, 33, 256, 513, 1100])
def test_a_product_is_that_of_pytorch(inside: int, out: int) -> None:
    torch.manual_seed(inside)
    weight, bias = torch.randn(out, inside), torch.randn(out)
    panels = prepack(weight)
    for rows in ROWS:
        x = torch.randn(rows, inside)
        assert torch.allclose(linear_packed(x, panels, out, bias), exactly(x, weight) + bias, atol=1e-4), rows


@pytest.mark.parametrize(("inside", "out"), [(8, 16), (32, 75), (48, 130), (1100, 70)])
@pytest.mark.parametrize("how", [0, RELU])
def test_a_row_has_the_same_bits_beside_any_rows(inside: int, out: int, how: int) -> None:
    torch.manual_seed(5)
    weight, bias, x = torch.randn(out, inside), torch.randn(out), torch.randn(403, inside)
    panels = prepack(weight)

    def multiplied(rows: Tensor) -> Tensor:
        y = torch.empty(len(rows), out)
        places = (
            data_ptr(rows),
            len(rows),
            data_ptr(panels),
            data_ptr(bias),
            inside,
            out,
            out,
            how,
            data_ptr(y),
        )
        library().gemm(*places)
        return y

    whole = multiplied(x)
    twin = exactly(x, weight) + bias
    assert torch.allclose(whole, twin.relu() if how else twin, atol=1e-4)
    for first, many in enumerate((1, 2, 3, 4, 5, 6, 12, 17, 25, 99, 200)):
        last = first + many
        assert torch.equal(multiplied(x[first:last].contiguous()), whole[first:last])


@pytest.mark.parametrize("rows", [1, 7, 200, 257, 600])
@pytest.mark.parametrize(("out", "inside"), [(1, 1), (5, 17), (12, 32), (200, 48), (411, 33)])
def test_the_gradient_of_weights_is_that_of_pytorch_and_may_be_added_to_another(
    rows: int, out: int, inside: int
) -> None:
    torch.manual_seed(rows)
    upstream, x, before = torch.randn(rows, out), torch.randn(rows, inside), torch.randn(out, inside)
    twin = exactly(upstream.T, x.T)
    assert torch.allclose(weight_grad(upstream, x, torch.full_like(before, torch.nan), 0), twin, atol=1e-4)
    assert torch.allclose(weight_grad(upstream, x, before.clone(), ACCUMULATE), before + twin, atol=1e-4)


def weight_grad(upstream: Tensor, x: Tensor, to: Tensor, how: int) -> Tensor:
    sizes = upstream.size(1), upstream.size(1)
    library().gemm_weight_grad(data_ptr(upstream), *sizes, data_ptr(x), x.size(1), len(x), how, data_ptr(to))
    return to


def test_the_gradient_of_some_columns_of_a_wider_matrix() -> None:
    torch.manual_seed(3)
    upstream, x = torch.randn(300, 90), torch.randn(300, 40)
    for first, out in ((0, 30), (30, 30), (60, 30), (7, 17)):
        found = torch.empty(out, 40)
        library().gemm_weight_grad(
            *(data_ptr(upstream) + 4 * first, 90, out, data_ptr(x), 40, 300, 0, data_ptr(found))
        )
        assert torch.allclose(found, exactly(upstream[:, first : first + out].T, x.T), atol=1e-4)


def exactly(a: Tensor, b: Tensor) -> Tensor:
    """a times b turned, summed up in float64."""
    return (a.double() @ b.double().T).float()
