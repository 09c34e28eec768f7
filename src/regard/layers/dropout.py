"""Dropout that costs little on a CPU: bytes of random words, in one pass with what stands next to it."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.engine import address, in_c, kernels


class Dropout(nn.Module):
    """Sets elements to zero with a probability while training and scales the others up to make good.

    On the CPU chance comes in bytes, which is several times faster than `torch.nn.Dropout`; the probability is
    then a multiple of 1/256 (0.1 becomes 26/256 = 0.1016).
    """

    def __init__(self, probability: float = 0.0) -> None:
        super().__init__()
        if not 0.0 <= probability < 1.0:
            raise ValueError(f"a dropout probability is at least 0 and below 1; given: {probability}")
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        if not self.active:
            return x
        if x.device.type != "cpu":
            return functional.dropout(x, self.probability)
        return dropped(x, self.bytes) if in_c(x) else x * kept_scaled(x, self.bytes)

    def added(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y), in one pass where it can be."""
        if self.active and in_c(x, y):
            return dropped(y, self.bytes, onto=x)
        return x + cast(Tensor, self(y))

    @property
    def active(self) -> bool:
        return self.training and self.probability > 0.0

    @property
    def bytes(self) -> int:
        """How many of 256 byte values mean that an element is dropped; none while not training."""
        return min(255, max(1, round(self.probability * 256))) if self.active else 0

    def extra_repr(self) -> str:
        return f"{self.probability}"


def kept_scaled(x: Tensor, bytes_dropped: int) -> Tensor:
    """0 where x is to be dropped, 1 / (share kept) elsewhere, in the type of x."""
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= bytes_dropped
    return kept.to(x.dtype).mul_(256 / (256 - bytes_dropped))


def dropped(y: Tensor, bytes_dropped: int, onto: Tensor | None = None, seed: int | None = None) -> Tensor:
    """y with dropout by the kernel, added onto another tensor if given; chance depends on the seed alone."""
    seed = chance() if seed is None else seed
    return cast(Tensor, _Dropped.apply(y, onto, bytes_dropped, seed))  # type: ignore[no-untyped-call]


def chance() -> int:
    """A seed for a kernel, drawn from PyTorch's generator."""
    return int(torch.randint(2**62, ()))


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, onto: Tensor | None, bytes_dropped: int, seed: int) -> Tensor:
        ctx.chance = (bytes_dropped, seed)
        return _run(y, onto, bytes_dropped, seed)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradient = upstream[0].contiguous()
        return _run(gradient, None, *ctx.chance), gradient if ctx.needs_input_grad[1] else None, None, None


def _run(y: Tensor, onto: Tensor | None, bytes_dropped: int, seed: int) -> Tensor:
    native = kernels()
    assert native is not None
    out = torch.empty_like(y)
    native.add_dropped(
        None if onto is None else address(onto), address(y), address(out), y.numel(), bytes_dropped, seed
    )
    return out
