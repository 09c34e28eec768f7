"""The layers whose cost is compared, each with what the book says of it (Vaswani et al. 2017, table 1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from regard.nn import MultiHead, Recorder, SelfAttention

KERNEL = 3


@dataclass(frozen=True)
class Compared:
    """A kind of layer for n tokens of size d: (batch, n, d) -> (batch, n, d)."""

    name: str
    operations: str
    """Complexity per layer."""
    steps: str
    """How many operations must wait for each other."""
    path: str
    """The longest way from one token to another."""
    make: Callable[[int], nn.Module]
    """From d_model, the layer."""


class PlainSelfAttention(nn.Module):
    """Self-attention that writes its weights down, as it does whenever somebody records them."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.attend = one_head(d_model)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.attend(x, record=Recorder().under("plain")))


def one_head(d_model: int) -> SelfAttention:
    """Self-attention with one head: the book counts n^2 d whatever the number of heads."""
    return SelfAttention(MultiHead(d_model, heads=1))


class Recurrent(nn.Module):
    """An LSTM that gives its outputs and keeps its last state to itself."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(d_model, d_model, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.lstm(x)[0])


class Convolution(nn.Module):
    """A convolution over the tokens, kernel 3; the length stays the same."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolve = nn.Conv1d(d_model, d_model, KERNEL, padding=KERNEL // 2)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.convolve(x.transpose(1, 2)).transpose(1, 2))


COMPARED = (
    Compared("plain attention", "n^2 d", "O(1)", "O(1)", PlainSelfAttention),
    Compared("fused attention", "n^2 d", "O(1)", "O(1)", one_head),
    Compared("LSTM", "n d^2", "O(n)", "O(n)", Recurrent),
    Compared("convolution", "k n d^2", "O(1)", "O(log_k n)", Convolution),
)
