"""Matrix products by our own kernel, which is faster than PyTorch's for the sizes of these models."""

import torch
from torch import Tensor

from regard.engine.library import address, kernels

PANEL = 16


def in_c(*tensors: Tensor) -> bool:
    """Whether the kernels are there and take these tensors; they know float32 only."""
    return (
        all(
            each.dtype == torch.float32 and each.device.type == "cpu" and each.is_contiguous()
            for each in tensors
        )
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()  # a trace sees PyTorch only
        and kernels() is not None
    )


def laid_out(weight: Tensor, *, turned: bool = False) -> Tensor:
    """A matrix (out, in), or (in, out) if turned, in panels of sixteen outputs: (panels, in, 16)."""
    native = kernels()
    assert native is not None
    weight = weight.detach().contiguous()
    inside, out = weight.shape if turned else reversed(weight.shape)
    panels = torch.empty(-(-out // PANEL), inside, PANEL)
    native.lay_out(address(weight), address(panels), out, inside, turned)
    return panels


def product(x: Tensor, panels: Tensor, out: int, bias: Tensor | None = None) -> Tensor:
    """x (rows, in) times weights that were laid out, plus the bias: (rows, out).

    A row has the same bits whatever rows stand beside it.
    """
    native = kernels()
    assert native is not None
    y = x.new_empty(len(x), out)
    native.multiply(
        address(x),
        len(x),
        address(panels),
        None if bias is None else address(bias),
        x.size(1),
        out,
        out,
        0,
        address(y),
    )
    return y
