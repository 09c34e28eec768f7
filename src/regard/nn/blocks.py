"""The Transformer's two blocks, shaped like the paper's figure 1: sublayers in a row, each with a residual."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from regard.nn.apart import Apart
from regard.nn.attention import Attention, MultiHead
from regard.nn.feed_forward import Activation, FeedForward
from regard.nn.kv_cache import KeyValue, KvCache
from regard.nn.positions import Position
from regard.nn.recorder import Recorder
from regard.nn.residual import Placement, Residual, SelfAttention


@dataclass(frozen=True)
class BlockShape:
    """What an encoder block and a decoder block have in common; the defaults are the paper's base model."""

    d_model: int = 512
    heads: int = 8
    d_ff: int = 2048
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm: Placement = "post"
    activation: Activation = "relu"
    epsilon: float = 1e-5
    inner_dropout: float | None = None
    """Dropout inside the feed-forward network; as `dropout` unless given."""

    def attention(self, position: Position | None = None) -> MultiHead:
        return MultiHead(self.d_model, self.heads, position=position, dropout=self.attention_dropout)

    def feed_forward(self) -> FeedForward:
        inner = self.dropout if self.inner_dropout is None else self.inner_dropout
        return FeedForward(self.d_model, self.d_ff, self.activation, inner)

    def residual(self, sublayer: nn.Module) -> Residual:
        return Residual(sublayer, nn.LayerNorm(self.d_model, eps=self.epsilon), self.norm, self.dropout)


MakePosition = Callable[[], Position]
"""Makes the position scheme of one layer: schemes with parameters have their own in each."""


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward: every token sees the whole sequence."""

    def __init__(self, shape: BlockShape, position: MakePosition = Position) -> None:
        super().__init__()
        self.self_attention = shape.residual(SelfAttention(shape.attention(position())))
        self.feed_forward = shape.residual(shape.feed_forward())

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | Apart | None = None,
        record: Recorder | None = None,
        places: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """x (batch, length, d_model) -> the same shape.

        With `places` (some,) only those tokens of sentences end to end look, and go on: (some, d_model).
        """
        among = None
        if places is not None:
            among = self.self_attention.norm(x) if self.self_attention.placement == "pre" else x
            x = x.index_select(0, places)
        x = self.self_attention(x, among=among, mask=mask, bias=bias, record=record and record.under("self"))
        return cast(Tensor, self.feed_forward(x))


class EncoderStack(nn.ModuleList):
    """Encoder blocks one after another: the encoder of every model that has one."""

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | Apart | None = None,
        record: Recorder | None = None,
    ) -> Tensor:
        """x (..., length, d_model) -> the same shape."""
        for number, block in enumerate(self):
            x = block(x, mask=mask, record=record and record.under(number))
        return x


class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention to the encoder unless told otherwise, then feed-forward."""

    def __init__(self, shape: BlockShape, position: MakePosition = Position, *, cross: bool = True) -> None:
        super().__init__()
        self.self_attention = shape.residual(SelfAttention(shape.attention(position())))
        self.cross_attention = shape.residual(shape.attention()) if cross else None
        self.feed_forward = shape.residual(shape.feed_forward())

    def project_kv(self, encoded: Tensor) -> KeyValue:
        """The encoder's output as this block's cross-attention sees it, computed once a sentence."""
        if self.cross_attention is None:
            raise ValueError("this decoder block was built without cross-attention")
        return cast(Attention, self.cross_attention.sublayer).project_kv(encoded)

    def forward(
        self,
        x: Tensor,
        source: KeyValue | Tensor | None = None,
        *,
        mask: Tensor | Apart | None = None,
        source_mask: Tensor | Apart | None = None,
        cache: KvCache | None = None,
        record: Recorder | None = None,
    ) -> Tensor:
        """x (batch, length, d_model), source from `project_kv`, or the encoder's output -> the shape of x."""
        x = self.self_attention(x, mask=mask, cache=cache, record=record and record.under("self"))
        if self.cross_attention is not None:
            if source is None:
                raise ValueError("this decoder block looks at a source: pass what `project_kv` gave")
            if isinstance(source, Tensor):
                source = self.project_kv(source)
            x = self.cross_attention(x, source, mask=source_mask, record=record and record.under("cross"))
        return cast(Tensor, self.feed_forward(x))
