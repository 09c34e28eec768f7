"""The path around a sublayer, and where the norm stands on it: here and nowhere else."""

from typing import Any, Literal, cast

from torch import Tensor, nn

from regard.nn.apart import Apart, AttentionStats
from regard.nn.attention import Attention
from regard.nn.dropout import Dropout
from regard.nn.kv_cache import KvCache
from regard.nn.recorder import Recorder

Placement = Literal["pre", "post"]


class Residual(nn.Module):
    """Residual connection with dropout and pre- or post-LayerNorm.

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
            return x + cast(Tensor, self.dropout(self.sublayer(self.norm(x), *args, **options)))
        return cast(Tensor, self.norm(x + self.dropout(self.sublayer(x, *args, **options))))

    @property
    def attention(self) -> Attention:
        """The attention in this residual connection: cross-attention itself, or what self-attention wraps."""
        inner = getattr(self.sublayer, "attention", self.sublayer)
        if not isinstance(inner, Attention):
            raise TypeError(f"this residual connection holds a {type(inner).__name__}, not attention")
        return inner


class SelfAttention(nn.Module):
    """A sequence looks at itself; with a cache, its new tokens look at the earlier ones too.

    Where only some of its tokens look, `among` is all of it.
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self,
        x: Tensor,
        *,
        among: Tensor | None = None,
        mask: Tensor | Apart | None = None,
        bias: Tensor | None = None,
        cache: KvCache | None = None,
        record: Recorder | None = None,
        noted: AttentionStats | None = None,
    ) -> Tensor:
        memory = self.attention.project_kv(x if among is None else among, cache=cache)
        attended = self.attention(x, memory, mask=mask, bias=bias, record=record, noted=noted)
        return cast(Tensor, attended)
