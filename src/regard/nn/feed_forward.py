"""Position-wise feed-forward network."""

from collections.abc import Callable
from functools import partial
from typing import Literal, cast

from torch import Tensor, nn
from torch.nn import functional

from regard.nn.attention import projection
from regard.nn.dropout import Dropout

Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu-tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


class FeedForward(nn.Module):
    """d_model -> d_ff -> d_model with ReLU, GELU or SiLU between, or gated: silu(W_g x) * (W x) (SwiGLU).

    "gelu-tanh" is GELU by the tanh that is close to it, as GPT has it (Hendrycks and Gimpel 2016).
    SwiGLU has a third matrix (Shazeer 2020); give it 2/3 of the d_ff for the same number of parameters.
    """

    def __init__(self, d_model: int, d_ff: int, activation: Activation = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        if activation not in ("swiglu", *ACTIVATIONS):
            raise ValueError(f"activation {activation!r} is none of {', '.join(ACTIVATIONS)}, swiglu")
        self.activation = activation
        self.fc1 = projection(d_model, d_ff)
        self.gate = projection(d_model, d_ff) if activation == "swiglu" else None
        self.fc2 = projection(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., d_model) -> (..., d_model)."""
        wide = self.fc1(x)
        if self.gate is not None:
            wide = functional.silu(self.gate(x)) * wide
        else:
            wide = ACTIVATIONS[self.activation](wide)
        return cast(Tensor, self.fc2(self.dropout(wide)))
