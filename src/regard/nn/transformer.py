"""The Transformer (Vaswani et al. 2017): encoder and decoder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from torch import Tensor, nn

from regard.config.models import GptConfig, TransformerConfig
from regard.nn.blocks import BlockShape, DecoderBlock, EncoderBlock, EncoderStack
from regard.nn.kv_cache import KeyValue, KvCache, KvCacheStep
from regard.nn.masks import causal_mask, padding_mask
from regard.nn.positions import Alibi, Learned, Position, Relative, Rotary, Sinusoidal
from regard.nn.recorder import Recorder
from regard.nn.seq2seq import Seq2SeqModel


class Transformer(Seq2SeqModel):
    """Encoder-decoder Transformer with its embeddings.

    Args:
        config: Sizes and settings.
        source_vocabulary, target_vocabulary: Number of ids.
        padding: Id of the padding, which stands at the end of a sequence only.
    """

    def __init__(
        self, config: TransformerConfig, source_vocabulary: int, target_vocabulary: int, padding: int
    ) -> None:
        super().__init__(
            config.tie_embeddings, config.d_model, config.d_model, source_vocabulary, target_vocabulary, padding
        )
        self.encoder = Encoder(config)
        self.decoder = Decoder(config, config.decoder_layers)
        self.dropout = nn.Dropout(config.dropout)

    def hidden(self, source: Tensor, target: Tensor, record: Recorder | None = None) -> Tensor:
        """Teacher-forced hidden states: ids (batch, source), (batch, target) -> (batch, target, d_model)."""
        source_mask = padding_mask(source, self.padding)
        encoded = self.encode(source, source_mask, record)
        hidden = self.decoder(
            self.target_embedding(target),
            encoded,
            # Padding is at the end only, so the causal mask hides it from every token.
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
        """Encode the source, and project the keys and values of cross-attention."""
        mask: Tensor | None = padding_mask(source, self.padding)
        assert mask is not None
        encoded = self.encode(source, mask)
        if mask.all():
            mask = None
        memory = self.decoder.project_kv(encoded)
        return TransformerState(memory, tuple(KvCache() for _ in memory), mask)

    def next_hidden(
        self, tokens: Tensor, state: "TransformerState", record: Recorder | None = None
    ) -> tuple[Tensor, "TransformerState"]:
        caches = [KvCacheStep(cache) for cache in state.caches]
        hidden = self.decoder(
            self.target_embedding(tokens.unsqueeze(1)),
            state.memory,
            source_mask=state.mask,
            caches=caches,
            record=record and record.under("decoder"),
        )
        return hidden.squeeze(1), replace(state, caches=tuple(step.cache for step in caches))


@dataclass(frozen=True)
class TransformerState:
    """Keys and values of the source and of the tokens so far, for each sequence of the batch."""

    memory: list[KeyValue]
    caches: tuple[KvCache, ...]
    mask: Tensor | None  # (batch, 1, source); None when nothing is padding

    def select(self, rows: Tensor) -> "TransformerState":
        return replace(
            self,
            memory=[layer.select(rows) for layer in self.memory],
            caches=tuple(cache.select(rows) for cache in self.caches),
            mask=None if self.mask is None else self.mask.index_select(0, rows),
        )


class Encoder(nn.Module):
    """Encoder blocks: every token attends to the whole sequence."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.position = absolute_position(config)
        self.blocks = EncoderStack(
            EncoderBlock(block_shape(config), inner_position(config)) for _ in range(config.encoder_layers)
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
        """Embeddings (batch, length, d_model) -> hidden states of the same shape."""
        x = self.position.embed(embedded)
        x = x if dropout is None else dropout(x)
        return cast(Tensor, self.norm(self.blocks(x, mask=mask, record=record)))


class Decoder(nn.Module):
    """Decoder blocks: a token attends to itself, to earlier tokens, and to the encoder's output.

    Args:
        config: Sizes and settings.
        layers: Number of blocks.
        cross: Whether they have cross-attention; a GPT's have none.
    """

    def __init__(self, config: TransformerConfig | GptConfig, layers: int, *, cross: bool = True) -> None:
        super().__init__()
        self.position = absolute_position(config)
        self.blocks = nn.ModuleList(
            DecoderBlock(block_shape(config), inner_position(config), cross=cross) for _ in range(layers)
        )
        self.norm = last_norm(config)

    def project_kv(self, encoded: Tensor) -> list[KeyValue]:
        """Keys and values of the encoder's output for each block, computed once per sequence."""
        return [cast(DecoderBlock, block).project_kv(encoded) for block in self.blocks]

    def forward(
        self,
        embedded: Tensor,
        source: list[KeyValue] | Tensor | None = None,
        *,
        mask: Tensor | None = None,
        source_mask: Tensor | None = None,
        caches: Sequence[KvCacheStep] | None = None,
        record: Recorder | None = None,
        dropout: nn.Module | None = None,
    ) -> Tensor:
        """Embeddings (batch, target, d_model) -> hidden states of the same shape.

        Args:
            source: From `project_kv`, or the encoder's output; None without cross-attention.
            mask: For self-attention.
            source_mask: For cross-attention.
            caches: One for each block, which the keys and values of the new tokens extend.
            dropout: Applied to the embeddings with positions.
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


def block_shape(config: TransformerConfig | GptConfig) -> BlockShape:
    shape = BlockShape(
        d_model=config.d_model,
        heads=config.heads,
        d_ff=config.d_ff,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        norm=config.norm or "pre",
        activation=config.activation,
        score=config.score,
    )
    if isinstance(config, GptConfig):
        return replace(shape, epsilon=config.epsilon, inner_dropout=0.0)
    return shape


def last_norm(config: TransformerConfig | GptConfig) -> nn.Module:
    """A final LayerNorm after pre-norm blocks, whose output is not normalized; none after post-norm blocks."""
    return (
        nn.LayerNorm(config.d_model, eps=block_shape(config).epsilon) if config.norm == "pre" else nn.Identity()
    )


def absolute_position(config: TransformerConfig | GptConfig) -> Position:
    """The position scheme that is added to the embeddings, if the configured one is."""
    match config.position:
        case "sinusoidal":
            return Sinusoidal(config.d_model)
        case "learned":
            return Learned(config.d_model, config.max_length)
        case _:
            return Position()


def inner_position(config: TransformerConfig | GptConfig) -> Callable[[], Position]:
    """Makes the position scheme inside the self-attention of a layer, if the configured one is."""
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
