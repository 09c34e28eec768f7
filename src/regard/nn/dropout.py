"""Dropout that costs little on a CPU."""

import torch
from torch import Tensor, nn


class Dropout(nn.Dropout):
    """`torch.nn.Dropout`; on a CPU the mask comes from random bytes, which is several times faster.

    The probability is then a multiple of 1/256 (0.1 becomes 26/256 = 0.1016).
    """

    def __init__(self, p: float = 0.0) -> None:
        if not 0.0 <= p < 1.0:
            raise ValueError(f"a dropout probability is at least 0 and below 1; given: {p}")
        super().__init__(p)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        return x * dropout_mask(x, dropout_threshold(self.p)) if x.device.type == "cpu" else super().forward(x)


def dropout_threshold(p: float) -> int:
    """How many of 256 byte values drop an element; 0 only where p is 0."""
    return min(255, max(1, round(p * 256))) if p else 0


def dropout_mask(x: Tensor, threshold: int) -> Tensor:
    """0 where x is dropped, 1 / (share kept) elsewhere, in the type of x."""
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= threshold
    return kept.to(x.dtype).mul_(256 / (256 - threshold))
