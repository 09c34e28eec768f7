"""Convolutional sequence to sequence with multi-step attention (Gehring et al. 2017).

Every layer is a convolution with a gated linear unit, so all positions are computed at once. Each layer of the
decoder has its own attention, whose result is an input of the next layer.
"""

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from regard.config.models import ConvS2SConfig
from regard.nn.attention import attend
from regard.nn.kv_cache import KeyValue
from regard.nn.masks import padding_mask
from regard.nn.positions import Learned
from regard.nn.recorder import Recorder
from regard.nn.scores import ScaledDot
from regard.nn.seq2seq import Seq2SeqModel

HALF = math.sqrt(0.5)
"""Factor that keeps the variance of a sum of two terms."""


@dataclass(frozen=True)
class ConvS2SState:
    """State of the decoder: the last kernel - 1 inputs of each convolution; its size does not grow."""

    inputs: tuple[Tensor, ...]
    """(batch, kernel - 1, hidden) of each layer."""
    memory: KeyValue
    lengths: Tensor  # (batch,) of the source
    mask: Tensor | None = None  # (batch, 1, 1, source); None when nothing is padding
    position: int = 0

    def select(self, rows: Tensor) -> "ConvS2SState":
        return ConvS2SState(
            inputs=tuple(tensor.index_select(0, rows) for tensor in self.inputs),
            memory=self.memory.select(rows),
            lengths=self.lengths.index_select(0, rows),
            mask=None if self.mask is None else self.mask.index_select(0, rows),
            position=self.position,
        )


class ConvS2S(Seq2SeqModel):
    """Convolutional encoder-decoder with its embeddings.

    Args:
        config: Sizes and settings.
        source_vocabulary, target_vocabulary: Number of ids.
        padding: Id of the padding, which stands at the end of a sequence only.
    """

    def __init__(
        self, config: ConvS2SConfig, source_vocabulary: int, target_vocabulary: int, padding: int
    ) -> None:
        size = config.embedding
        super().__init__(config.tie_embeddings, size, size, source_vocabulary, target_vocabulary, padding)
        self.source_position = Learned(size, config.max_length)
        self.target_position = Learned(size, config.max_length)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.dropout = nn.Dropout(config.dropout)

    def hidden(self, source: Tensor, target: Tensor, record: Recorder | None = None) -> Tensor:
        """Teacher-forced hidden states: ids (batch, source), (batch, target) -> (batch, target, embedding)."""
        hidden, _ = self.decode(target, self.start(source), record)
        return hidden

    def start(self, source: Tensor) -> ConvS2SState:
        """Encode the source; the convolutions of the decoder start with zeros."""
        nonpad = source != self.padding
        embedded = self.dropout(self.source_position.embed(self.source_embedding(source)))
        keys, values = self.encoder(embedded, nonpad)
        full = bool(nonpad.all())
        return ConvS2SState(
            inputs=self.decoder.zeros(source.size(0), embedded),
            memory=KeyValue(
                keys.unsqueeze(1), values.unsqueeze(1), torch.arange(source.size(1), device=source.device)
            ),
            lengths=nonpad.sum(1),
            mask=None if full else padding_mask(source, self.padding).unsqueeze(1),
        )

    def next_hidden(
        self, tokens: Tensor, state: ConvS2SState, record: Recorder | None = None
    ) -> tuple[Tensor, ConvS2SState]:
        hidden, state = self.decode(tokens.unsqueeze(1), state, record)
        return hidden.squeeze(1), state

    def decode(
        self, target: Tensor, state: ConvS2SState, record: Recorder | None
    ) -> tuple[Tensor, ConvS2SState]:
        """The next tokens: ids (batch, target) -> hidden states (batch, target, embedding), and a new state."""
        embedded = self.dropout(self.target_position.embed(self.target_embedding(target), state.position))
        hidden, state = self.decoder(embedded, state, record and record.under("decoder"))
        return self.dropout(hidden), state


class GatedConvolution(nn.Module):
    """A convolution over positions with a gated linear unit: (batch, length, width) -> (..., width).

    There is no padding: `kernel` - 1 positions fewer come out than go in.
    """

    def __init__(self, width: int, kernel: int, dropout: float) -> None:
        super().__init__()
        convolution = nn.Conv1d(width, 2 * width, kernel)
        nn.init.normal_(convolution.weight, std=math.sqrt(4 * (1 - dropout) / (kernel * width)))
        nn.init.zeros_(cast(Tensor, convolution.bias))
        self.convolution = weight_norm(convolution, dim=0)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        convolved = self.convolution(self.dropout(x).transpose(1, 2)).transpose(1, 2)
        return functional.glu(convolved, dim=-1)


class Encoder(nn.Module):
    """Computes keys and values for the attention of the decoder's layers."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.margin = config.kernel // 2
        self.gradient_scale = 1 / (2 * config.decoder_layers)
        self.widen = linear(config.embedding, config.hidden, config.dropout)
        self.layers = nn.ModuleList(
            GatedConvolution(config.hidden, config.kernel, config.dropout) for _ in range(config.encoder_layers)
        )
        self.output = linear(config.hidden, config.embedding)

    def forward(self, embedded: Tensor, nonpad: Tensor) -> tuple[Tensor, Tensor]:
        """Keys, and values, which are keys plus embeddings.

        Args:
            embedded: (batch, source, embedding).
            nonpad: (batch, source), False at padding.

        Returns:
            Both (batch, source, embedding).
        """
        keep = nonpad.unsqueeze(-1)
        hidden = self.widen(embedded)
        for layer in self.layers:
            padded = functional.pad(hidden * keep, (0, 0, self.margin, self.margin))
            hidden = (hidden + layer(padded)) * HALF
        keys = scale_gradient(self.output(hidden), self.gradient_scale)
        return keys, (keys + embedded) * HALF


class DecoderLayer(nn.Module):
    """A causal convolution, then attention to the source with its result (section 3.3)."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.convolution = GatedConvolution(config.hidden, config.kernel, config.dropout)
        self.query = linear(config.hidden, config.embedding)
        self.output = linear(config.embedding, config.hidden)
        # The paper's embeddings have a standard deviation of 0.1, these have 1: without the scale, dot products
        # would saturate the softmax from the start.
        self.score = ScaledDot()

    def forward(
        self, hidden: Tensor, before: Tensor, embedded: Tensor, state: ConvS2SState, record: Recorder | None
    ) -> tuple[Tensor, Tensor]:
        """hidden (batch, target, hidden) after `before` (batch, kernel - 1, hidden): the result, and what the
        next positions have before them.
        """
        window = torch.cat([before, hidden], dim=1)
        convolved = self.convolution(window)
        query = (self.query(convolved) + embedded) * HALF
        context = attend(
            query.unsqueeze(1),
            state.memory.keys,
            state.memory.values,
            score=self.score,
            mask=state.mask,
            record=record and record.under("cross"),
        ).squeeze(1)
        # The mean of n values has a variance n times too small: m sqrt(1/m) in the paper.
        context = context * state.lengths.to(context.dtype).sqrt()[:, None, None]
        attended = (convolved + self.output(context)) * HALF
        return (attended + hidden) * HALF, window[:, window.size(1) - before.size(1) :]


class Decoder(nn.Module):
    """Causal convolutions, each followed by attention to the source."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.hidden, self.left_context = config.hidden, config.kernel - 1
        self.widen = linear(config.embedding, config.hidden, config.dropout)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.output = linear(config.hidden, config.embedding)

    def zeros(self, batch: int, like: Tensor) -> tuple[Tensor, ...]:
        """Zeros as the inputs of each layer before the first token."""
        return tuple(like.new_zeros(batch, self.left_context, self.hidden) for _ in self.layers)

    def forward(
        self, embedded: Tensor, state: ConvS2SState, record: Recorder | None
    ) -> tuple[Tensor, ConvS2SState]:
        """(batch, target, embedding) -> hidden states of the same shape, and the state after them."""
        hidden, inputs = self.widen(embedded), []
        for number, (layer, before) in enumerate(zip(self.layers, state.inputs, strict=True)):
            hidden, window = layer(hidden, before, embedded, state, record and record.under(number))
            inputs.append(window)
        position = state.position + embedded.size(1)
        state = ConvS2SState(tuple(inputs), state.memory, state.lengths, state.mask, position)
        return self.output(hidden), state


def linear(size: int, width: int, dropout: float = 0.0) -> nn.Module:
    """A weight-normalized projection whose result has the variance of its input (section 3.5)."""
    layer = nn.Linear(size, width)
    nn.init.normal_(layer.weight, std=math.sqrt((1 - dropout) / size))
    nn.init.zeros_(layer.bias)
    return cast(nn.Module, weight_norm(layer, dim=0))


def scale_gradient(x: Tensor, scale: float) -> Tensor:
    """x, with its gradient multiplied by `scale`: every layer of the decoder adds to it."""
    return x * scale + x.detach() * (1 - scale)
