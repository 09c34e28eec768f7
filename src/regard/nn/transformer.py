"""The Transformer (Vaswani et al. 2017): an encoder that reads, a decoder that writes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from torch import Tensor, nn

from regard.config import GptModel, TransformerModel
from regard.nn.blocks import BlockShape, DecoderBlock, EncoderBlock, EncoderStack
from regard.nn.dropout import Dropout
from regard.nn.kv_cache import KeyValue, KvCache
from regard.nn.masks import causal_mask, padding_mask
from regard.nn.positions import Alibi, Learned, Position, Relative, Rotary, Sinusoidal
from regard.nn.recorder import Recorder
from regard.nn.seq2seq import Seq2SeqModel


class Transformer(Seq2SeqModel):
    """Encoder and decoder with their embeddings; `padding` is the id that stands for nothing."""

    def __init__(
        self, config: TransformerModel, source_vocabulary: int, target_vocabulary: int, padding: int
    ) -> None:
        super().__init__(
            config.share, config.d_model, config.d_model, source_vocabulary, target_vocabulary, padding
        )
        self.encoder = Encoder(config)
        self.decoder = Decoder(config, config.decoder_layers)
        self.dropout = Dropout(config.dropout)

    def hidden(self, source: Tensor, target: Tensor, record: Recorder | None = None) -> Tensor:
        """The decoder's last layer, teacher-forced: source (batch, source), target (batch, target) ids."""
        source_mask = padding_mask(source, self.padding)
        encoded = self.encode(source, source_mask, record)
        hidden = self.decoder(
            self.target_embedding(target),
            encoded,
            # Padding stands at the end, where no real token may look anyway.
            mask=causal_mask(target.size(1), device=target.device),
            source_mask=source_mask,
            record=record and record.under("decoder"),
            dropout=self.dropout,
        )
        return cast(Tensor, hidden)

    def encode(self, source: Tensor, mask: Tensor, record: Recorder | None = None) -> Tensor:
        """Source ids (batch, source) -> (batch, source, d_model)."""
        embedded = self.source_embedding(source)
        return cast(
            Tensor,
            self.encoder(embedded, mask=mask, record=record and record.under("encoder"), dropout=self.dropout),
        )

    def start(self, source: Tensor) -> "TransformerState":
        """Encode once; project the keys and values of cross-attention once."""
        mask: Tensor | None = padding_mask(source, self.padding)
        assert mask is not None
        encoded = self.encode(source, mask)
        if mask.all():
            mask = None
        memory = self.decoder.project_kv(encoded)
        return TransformerState(memory, [KvCache() for _ in memory], mask)

    def next_hidden(
        self, tokens: Tensor, state: "TransformerState", record: Recorder | None = None
    ) -> tuple[Tensor, "TransformerState"]:
        """The caches grow by one."""
        hidden = self.decoder(
            self.target_embedding(tokens.unsqueeze(1)),
            state.memory,
            source_mask=state.mask,
            caches=state.caches,
            record=record and record.under("decoder"),
        )
        return hidden.squeeze(1), state


@dataclass(frozen=True)
class TransformerState:
    """What the decoder has read and written so far, for each sentence of the batch."""

    memory: list[KeyValue]
    caches: list[KvCache]
    mask: Tensor | None  # (batch, 1, source); None when nothing is padding

    def select(self, rows: Tensor) -> "TransformerState":
        return replace(
            self,
            memory=[each.select(rows) for each in self.memory],
            caches=[each.select(rows) for each in self.caches],
            mask=None if self.mask is None else self.mask.index_select(0, rows),
        )


class Encoder(nn.Module):
    """Blocks in which every token sees the whole sentence."""

    def __init__(self, config: TransformerModel) -> None:
        super().__init__()
        self.position = absolute_position(config)
        self.blocks = EncoderStack(
            EncoderBlock(shape_of(config), inner_position(config)) for _ in range(config.encoder_layers)
        )
        self.norm = last_norm(config)

    def forward(
        self,
        embedded: Tensor,
        *,
        mask: Tensor | None = None,
        record: Recorder | None = None,
        dropout: nn.Module | None = None,
    ) -> Tensor:
        """(batch, length, d_model) embeddings -> the same shape, each token now knowing its context."""
        x = self.position.embed(embedded)
        x = x if dropout is None else dropout(x)
        return cast(Tensor, self.norm(self.blocks(x, mask=mask, record=record)))


class Decoder(nn.Module):
    """Blocks in which a token sees what stands before it, and the encoder's output; GPT has no encoder."""

    def __init__(self, config: TransformerModel | GptModel, layers: int, *, cross: bool = True) -> None:
        super().__init__()
        self.position = absolute_position(config)
        self.blocks = nn.ModuleList(
            DecoderBlock(shape_of(config), inner_position(config), cross=cross) for _ in range(layers)
        )
        self.norm = last_norm(config)

    def project_kv(self, encoded: Tensor) -> list[KeyValue]:
        """Keys and values of the source for each block, projected once a sentence."""
        return [cast(DecoderBlock, block).project_kv(encoded) for block in self.blocks]

    def forward(
        self,
        embedded: Tensor,
        source: list[KeyValue] | Tensor | None = None,
        *,
        mask: Tensor | None = None,
        source_mask: Tensor | None = None,
        caches: list[KvCache] | None = None,
        record: Recorder | None = None,
        dropout: nn.Module | None = None,
    ) -> Tensor:
        """(batch, target, d_model) embeddings -> the same shape; with caches the tokens continue those.

        The source is what `project_kv` gave, or the encoder's output where it is asked once; a decoder without
        cross-attention has none.
        """
        x = self.position.embed(embedded, caches[0].length if caches else 0)
        x = x if dropout is None else dropout(x)
        for number, block in enumerate(self.blocks):
            x = block(
                x,
                source[number] if isinstance(source, list) else source,
                mask=mask,
                source_mask=source_mask,
                cache=caches[number] if caches else None,
                record=record and record.under(number),
            )
        return cast(Tensor, self.norm(x))


def shape_of(config: TransformerModel | GptModel) -> BlockShape:
    shape = BlockShape(
        d_model=config.d_model,
        heads=config.heads,
        d_ff=config.d_ff,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        norm=config.norm or "pre",
        activation=config.activation,
    )
    if isinstance(config, GptModel):
        return replace(shape, epsilon=config.epsilon, inner_dropout=0.0)
    return shape


def last_norm(config: TransformerModel | GptModel) -> nn.Module:
    """Pre-norm leaves the residual stream unnormed at the end; post-norm does not."""
    return nn.LayerNorm(config.d_model, eps=shape_of(config).epsilon) if config.norm == "pre" else nn.Identity()


def absolute_position(config: TransformerModel | GptModel) -> Position:
    """The scheme that is added to the embeddings, if it is of that sort."""
    match config.position:
        case "sinusoidal":
            return Sinusoidal(config.d_model)
        case "learned":
            return Learned(config.d_model, config.longest)
        case _:
            return Position()


def inner_position(config: TransformerModel | GptModel) -> Callable[[], Position]:
    """Makes the scheme that acts inside one layer's self-attention, if it is of that sort."""
    size = config.d_model // config.heads
    match config.position:
        case "relative":
            return lambda: Relative(size)
        case "rotary":
            return lambda: Rotary(size)
        case "alibi":
            return lambda: Alibi(config.heads)
        case _:
            return Position
