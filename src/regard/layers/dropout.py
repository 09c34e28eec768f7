"""Dropout that costs little on a CPU: bytes of random words instead of a random float for each element."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Dropout(nn.Module):
    """Sets elements to zero with a probability while training and scales the others up to make good.

    On the CPU the mask comes from bytes of random 64-bit words, which is several times faster than
    `torch.nn.Dropout`; the probability is then a multiple of 1/256 (0.1 becomes 26/256 = 0.1016).
    """

    def __init__(self, probability: float = 0.0) -> None:
        super().__init__()
        if not 0.0 <= probability < 1.0:
            raise ValueError(f"a dropout probability is at least 0 and below 1; given: {probability}")
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.probability == 0.0:
            return x
        if x.device.type != "cpu":
            return functional.dropout(x, self.probability)
        return x * kept_scaled(x, self.probability)

    def extra_repr(self) -> str:
        return f"{self.probability}"


def kept_scaled(x: Tensor, probability: float) -> Tensor:
    """0 where x is to be dropped, 1 / (share kept) elsewhere, in the type of x."""
    dropped = min(255, max(1, round(probability * 256)))  # of 256 byte values
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= dropped
    return kept.to(x.dtype).mul_(256 / (256 - dropped))
