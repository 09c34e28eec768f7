"""The path around a sublayer, and where the norm stands on it: here and nowhere else."""

from typing import Any, Literal, cast

from torch import Tensor, nn

from regard.layers.dropout import Dropout

Placement = Literal["pre", "post"]


class Residual(nn.Module):
    """Adds what a sublayer says to what it was told, with dropout and layer norm.

    "post": LayerNorm(x + f(x)), as the paper has it; needs a warm-up. "pre": x + f(LayerNorm(x)); does not,
    but what comes out of the last layer still wants a norm.
    """

    def __init__(
        self, sublayer: nn.Module, norm: nn.Module, placement: Placement, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if placement not in ("pre", "post"):
            raise ValueError(f"a norm stands 'pre' or 'post' its sublayer, not {placement!r}")
        self.sublayer, self.norm, self.placement = sublayer, norm, placement
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, *args: Any, **options: Any) -> Tensor:
        """x (batch, length, d_model); the rest goes to the sublayer as it is."""
        if self.placement == "pre":
            return self.dropout.added(x, self.sublayer(self.norm(x), *args, **options))
        return cast(Tensor, self.norm(self.dropout.added(x, self.sublayer(x, *args, **options))))
