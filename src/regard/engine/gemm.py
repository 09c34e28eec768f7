"""Matrix products by our own kernel, which is faster than PyTorch's at the sizes of these models."""

import torch
from torch import Tensor

from regard.engine.library import data_ptr, library, optional_ptr

PANEL = 16


def prepack(weight: Tensor, *, transposed: bool = False) -> Tensor:
    """A matrix (out, in), or (in, out) if transposed, in panels of sixteen outputs: (panels, in, 16)."""
    weight = weight.detach().contiguous()
    inside, out = weight.shape if transposed else reversed(weight.shape)
    panels = torch.empty(-(-out // PANEL), inside, PANEL)
    library().lay_out(data_ptr(weight), data_ptr(panels), out, inside, transposed)
    return panels


def linear_packed(x: Tensor, panels: Tensor, out: int, bias: Tensor | None = None) -> Tensor:
    """x (rows, in) times prepacked weights, plus the bias: (rows, out).

    A row has the same bits whatever rows stand beside it.
    """
    y = x.new_empty(len(x), out)
    library().multiply(
        data_ptr(x), len(x), data_ptr(panels), optional_ptr(bias), x.size(1), out, out, 0, data_ptr(y)
    )
    return y
