"""Position-wise feed-forward network."""

from collections.abc import Callable
from functools import partial
from typing import Literal, cast

from torch import Tensor, nn
from torch.nn import functional

from regard.nn.attention import projection

Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu-tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


class FeedForward(nn.Module):
    """Position-wise feed-forward network: fc2(dropout(activation(fc1(x)))).

    Args:
        d_model: Size of input and output.
        d_ff: Size of the hidden layer.
        activation: "gelu-tanh" is the tanh approximation of GELU, as in GPT (Hendrycks and Gimpel 2016).
            "swiglu" is silu(gate(x)) * fc1(x) (Shazeer 2020), with a third matrix: 2/3 of the d_ff gives the
            same number of parameters.
        dropout: Dropout probability between activation and fc2.

    Raises:
        ValueError: The activation is unknown.
    """

    def __init__(self, d_model: int, d_ff: int, activation: Activation = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        if activation not in ("swiglu", *ACTIVATIONS):
            raise ValueError(f"unknown activation {activation!r}; allowed: {', '.join(ACTIVATIONS)}, swiglu")
        self.activation = activation
        self.fc1 = projection(d_model, d_ff)
        self.gate = projection(d_model, d_ff) if activation == "swiglu" else None
        self.fc2 = projection(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., d_model) -> (..., d_model)."""
        hidden = self.fc1(x)
        if self.gate is not None:
            hidden = functional.silu(self.gate(x)) * hidden
        else:
            hidden = ACTIVATIONS[self.activation](hidden)
        return cast(Tensor, self.fc2(self.dropout(hidden)))
