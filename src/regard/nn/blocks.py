"""Encoder and decoder blocks of the Transformer (Vaswani et al. 2017, figure 1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from regard.config.models import ScoreName
from regard.nn.attention import Attention, MultiHead
from regard.nn.feed_forward import Activation, FeedForward
from regard.nn.kv_cache import KeyValue, KvCacheStep
from regard.nn.positions import Position
from regard.nn.recorder import Recorder
from regard.nn.residual import Placement, Residual, SelfAttention
from regard.nn.scores import make_score


@dataclass(frozen=True)
class BlockShape:
    """Sizes and settings of encoder and decoder blocks; the defaults are those of the paper's base model."""

    d_model: int = 512
    heads: int = 8
    d_ff: int = 2048
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm: Placement = "post"
    activation: Activation = "relu"
    epsilon: float = 1e-5
    inner_dropout: float | None = None
    """Dropout inside the feed-forward network; None: as `dropout`."""
    score: ScoreName = "scaled-dot"
    """Score function of every attention; each layer has its own parameters."""

    def attention(self, position: Position | None = None) -> MultiHead:
        return MultiHead(
            self.d_model,
            self.heads,
            score=make_score(self.score, self.d_model // self.heads),
            position=position,
            dropout=self.attention_dropout,
        )

    def feed_forward(self) -> FeedForward:
        inner = self.dropout if self.inner_dropout is None else self.inner_dropout
        return FeedForward(self.d_model, self.d_ff, self.activation, inner)

    def residual(self, sublayer: nn.Module) -> Residual:
        return Residual(sublayer, nn.LayerNorm(self.d_model, eps=self.epsilon), self.norm, self.dropout)


MakePosition = Callable[[], Position]
"""Makes the position scheme of one layer: each layer has its own parameters."""


class EncoderBlock(nn.Module):
    """Self-attention over the whole sequence, then a feed-forward network.

    Args:
        shape: Sizes and settings.
        position: Makes the position scheme inside self-attention.
    """

    def __init__(self, shape: BlockShape, position: MakePosition = Position) -> None:
        super().__init__()
        self.self_attention = shape.residual(SelfAttention(shape.attention(position())))
        self.feed_forward = shape.residual(shape.feed_forward())

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        queries: int | None = None,
        record: Recorder | None = None,
    ) -> Tensor:
        """x (batch, length, d_model) -> the same shape.

        Args:
            mask, bias: As for `Attention.forward`.
            queries: Number of first tokens to compute: (batch, queries, d_model); keys and values are those of
                all tokens. None: all.
            record: Collects attention weights.
        """
        source = None
        if queries is not None:
            source = self.self_attention.norm(x) if self.self_attention.placement == "pre" else x
            x = x[:, :queries]
        x = self.self_attention(x, source=source, mask=mask, bias=bias, record=record and record.under("self"))
        return cast(Tensor, self.feed_forward(x))


class EncoderStack(nn.ModuleList):
    """A sequence of encoder blocks."""

    def forward(self, x: Tensor, *, mask: Tensor | None = None, record: Recorder | None = None) -> Tensor:
        """x (batch, length, d_model) -> the same shape."""
        for number, block in enumerate(self):
            x = block(x, mask=mask, record=record and record.under(number))
        return x


class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention to the encoder's output, then a feed-forward network.

    Args:
        shape: Sizes and settings.
        position: Makes the position scheme inside self-attention.
        cross: Whether it has cross-attention; a GPT's blocks have none.
    """

    def __init__(self, shape: BlockShape, position: MakePosition = Position, *, cross: bool = True) -> None:
        super().__init__()
        self.self_attention = shape.residual(SelfAttention(shape.attention(position())))
        self.cross_attention = shape.residual(shape.attention()) if cross else None
        self.feed_forward = shape.residual(shape.feed_forward())

    def project_kv(self, encoded: Tensor) -> KeyValue:
        """Keys and values of the encoder's output (batch, source, d_model), computed once per sequence.

        Raises:
            ValueError: The block has no cross-attention.
        """
        if self.cross_attention is None:
            raise ValueError("this decoder block was built without cross-attention")
        return cast(Attention, self.cross_attention.sublayer).project_kv(encoded)

    def forward(
        self,
        x: Tensor,
        source: KeyValue | Tensor | None = None,
        *,
        mask: Tensor | None = None,
        source_mask: Tensor | None = None,
        cache: KvCacheStep | None = None,
        record: Recorder | None = None,
    ) -> Tensor:
        """x (batch, length, d_model) -> the same shape.

        Args:
            source: Keys and values from `project_kv`, or the encoder's output (batch, source, d_model).
            mask: For self-attention.
            source_mask: For cross-attention.
            cache: KV cache of self-attention, extended by the keys and values of x.
            record: Collects attention weights.

        Raises:
            ValueError: The block has cross-attention and `source` is None.
        """
        x = self.self_attention(x, mask=mask, cache=cache, record=record and record.under("self"))
        if self.cross_attention is not None:
            if source is None:
                raise ValueError(
                    "this decoder block has cross-attention: pass the keys and values from `project_kv`"
                )
            if isinstance(source, Tensor):
                source = self.project_kv(source)
            x = self.cross_attention(x, source, mask=source_mask, record=record and record.under("cross"))
        return cast(Tensor, self.feed_forward(x))
