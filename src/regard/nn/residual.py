"""Residual connections around sublayers, and self-attention as a sublayer."""

from typing import Any, Literal, cast

from torch import Tensor, nn

from regard.nn.attention import Attention, AttentionStats
from regard.nn.kv_cache import KvCacheStep
from regard.nn.recorder import Recorder

Placement = Literal["pre", "post"]


class Residual(nn.Module):
    """Residual connection with dropout and pre- or post-LayerNorm.

    "post": LayerNorm(x + f(x)), as Vaswani et al. 2017; training needs a warm-up. "pre": x + f(LayerNorm(x));
    it does not, but the last layer's output needs a final norm.

    Args:
        sublayer: f, which returns the shape of its input.
        norm: The LayerNorm.
        placement: "pre" or "post".
        dropout: Dropout probability of the sublayer's output.

    Raises:
        ValueError: The placement is neither "pre" nor "post".
    """

    def __init__(
        self, sublayer: nn.Module, norm: nn.Module, placement: Placement, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if placement not in ("pre", "post"):
            raise ValueError(f"norm placement is 'pre' or 'post', not {placement!r}")
        self.sublayer, self.norm, self.placement = sublayer, norm, placement
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *args: Any, **options: Any) -> Tensor:
        """x (batch, length, d_model) -> the same shape; other arguments are passed to the sublayer."""
        if self.placement == "pre":
            return x + cast(Tensor, self.dropout(self.sublayer(self.norm(x), *args, **options)))
        return cast(Tensor, self.norm(x + self.dropout(self.sublayer(x, *args, **options))))

    @property
    def attention(self) -> Attention:
        """The attention module: the sublayer itself, or the one that `SelfAttention` wraps."""
        inner = getattr(self.sublayer, "attention", self.sublayer)
        if not isinstance(inner, Attention):
            raise TypeError(f"the sublayer is a {type(inner).__name__}, not attention")
        return inner


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; with a KV cache, of new tokens to earlier ones and themselves."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self,
        x: Tensor,
        *,
        source: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        cache: KvCacheStep | None = None,
        record: Recorder | None = None,
        stats: AttentionStats | None = None,
    ) -> Tensor:
        """x (batch, length, d_model) -> the same shape.

        Args:
            source: (batch, key, d_model), the whole sequence, if x is only its first tokens.
            mask, bias, record, stats: As for `Attention.forward`.
            cache: Extended by the keys and values of x.
        """
        start = 0 if cache is None else cache.length
        memory = self.attention.project_kv(x if source is None else source, start=start)
        if cache is not None:
            memory = cache.extend(memory)
        positions = None if source is None else memory.positions[: x.size(-2)]
        attended = self.attention(
            x, memory, mask=mask, bias=bias, positions=positions, record=record, stats=stats
        )
        return cast(Tensor, attended)
