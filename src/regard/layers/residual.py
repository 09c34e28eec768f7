"""The path around a sublayer, and where the norm stands on it: here and nowhere else."""

from typing import Any, Literal, cast

from torch import Tensor, nn

from regard.attention import Attention
from regard.layers.dropout import Dropout
from regard.layers.feedforward import FeedForward
from regard.layers.looked import looked
from regard.layers.self_attention import SelfAttention
from regard.layers.thought import thought, watched

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
        together = self.at_once(x, *args, **options)
        if together is not None:
            return together
        if self.placement == "pre":
            return self.dropout.added(x, self.sublayer(self.norm(x), *args, **options))
        return cast(Tensor, self.norm(self.dropout.added(x, self.sublayer(x, *args, **options))))

    def at_once(self, x: Tensor, *args: Any, may_look: Any = None, **options: Any) -> Tensor | None:
        """The whole of it by one kernel, where there is one and nobody asks for more than the result.

        Attention is given the source that it is to look at, not yet projected.
        """
        if self.placement == "post" or watched(self) or any(each is not None for each in options.values()):
            return None
        match self.sublayer, args:
            case FeedForward(), ():
                return thought(x, self.norm, self.sublayer, self.dropout)
            case SelfAttention(), () if not watched(self.sublayer):
                return looked(x, self.norm, self.sublayer.attention, self.dropout, may_look)
            case Attention(), (Tensor() as source,):
                return looked(x, self.norm, self.sublayer, self.dropout, may_look, source)
        return None
