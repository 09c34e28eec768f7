"""Matrix products by the engine's own kernel, with weights that are packed once."""

import torch
from torch import Tensor

from regard.engine.library import data_ptr, library, optional_ptr


def prepack(weight: Tensor, *, transposed: bool = False) -> Tensor:
    """A matrix (out, in), or (in, out) if transposed, packed for `linear_packed`: one array."""
    weight = weight.detach().contiguous()
    size, out = weight.shape if transposed else reversed(weight.shape)
    packed = torch.empty(library().gemm_packed_floats(out, size))
    library().gemm_pack(data_ptr(weight), data_ptr(packed), out, size, transposed)
    return packed


def linear_packed(x: Tensor, packed: Tensor, out: int, bias: Tensor | None = None) -> Tensor:
    """x (rows, in) times a packed matrix, plus the bias: (rows, out).

    A row has the same bits whatever rows stand beside it.
    """
    y = x.new_empty(len(x), out)
    library().gemm(
        data_ptr(x), len(x), data_ptr(packed), optional_ptr(bias), x.size(1), out, out, 0, data_ptr(y)
    )
    return y


def weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """gradient (rows, out) transposed times x (rows, in): (out, in)."""
    out = x.new_empty(gradient.size(1), x.size(1))
    library().gemm_weight_grad(
        data_ptr(gradient), gradient.size(1), gradient.size(1), data_ptr(x), x.size(1), len(x), 0, data_ptr(out)
    )
    return out
