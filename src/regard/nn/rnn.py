"""Recurrent encoder-decoders: without attention (Sutskever et al. 2014), Bahdanau's and Luong's.

One encoder and three decoders, which follow their papers. They differ in the order: Bahdanau's attends with the
previous state and then updates it, Luong's updates the state and then attends with the new one.
"""

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from regard.config.models import RnnConfig
from regard.nn.attention import Attention
from regard.nn.kv_cache import KeyValue
from regard.nn.masks import padding_mask
from regard.nn.recorder import Recorder
from regard.nn.recurrent import LayerState, Recurrent
from regard.nn.scores import Score, make_score
from regard.nn.seq2seq import Seq2SeqModel


@dataclass(frozen=True)
class RnnState:
    """State of the decoder for each sequence of the batch; its size does not grow."""

    layers: list[LayerState]
    memory: KeyValue | None = None
    """Keys and values of the encoder's states, if the decoder has attention."""
    mask: Tensor | None = None  # (batch, 1, source); None when nothing is padding
    fed: Tensor | None = None
    """The attentional vector (batch, hidden) of the previous step, with input feeding."""

    @property
    def top(self) -> Tensor:
        """The state of the last layer: (batch, hidden)."""
        return self.layers[-1][0]

    def select(self, rows: Tensor) -> "RnnState":
        return RnnState(
            layers=[tuple(part.index_select(0, rows) for part in layer) for layer in self.layers],
            memory=self.memory and self.memory.select(rows),
            mask=None if self.mask is None else self.mask.index_select(0, rows),
            fed=None if self.fed is None else self.fed.index_select(0, rows),
        )


class Rnn(Seq2SeqModel):
    """Recurrent encoder-decoder with its embeddings.

    Args:
        config: Sizes and settings.
        source_vocabulary, target_vocabulary: Number of ids.
        padding: Id of the padding, which stands at the end of a sequence only.
    """

    def __init__(self, config: RnnConfig, source_vocabulary: int, target_vocabulary: int, padding: int) -> None:
        super().__init__(
            config.tie_embeddings,
            config.embedding,
            config.hidden,
            source_vocabulary,
            target_vocabulary,
            padding,
        )
        self.reverse = config.reverse
        self.encoder = Recurrent(
            config.cell,
            config.embedding,
            config.encoder_hidden,
            config.layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        self.bridge = Bridge(config)
        self.decoder = make_decoder(config)
        self.dropout = nn.Dropout(config.dropout)

    def hidden(self, source: Tensor, target: Tensor, record: Recorder | None = None) -> Tensor:
        """Teacher-forced hidden states: ids (batch, source), (batch, target) -> (batch, target, hidden)."""
        embedded = self.dropout(self.target_embedding(target))
        hidden = self.decoder(embedded, self.start(source), record and record.under("decoder"))
        return cast(Tensor, self.dropout(hidden))

    def start(self, source: Tensor) -> RnnState:
        """Encode the source; the encoder's last state is the decoder's first."""
        nonpad = source != self.padding
        lengths = None if bool(nonpad.all()) else nonpad.sum(1)
        ids = reverse_sequences(source, lengths) if self.reverse else source
        encoded, last = self.encoder(self.dropout(self.source_embedding(ids)), lengths)
        if self.reverse:  # attention weights are in the order of the source
            encoded = reverse_sequences(encoded, lengths)
        mask = None if lengths is None else padding_mask(source, self.padding)
        return self.decoder.begin(self.bridge(last), encoded, mask)

    def next_hidden(
        self, tokens: Tensor, state: RnnState, record: Recorder | None = None
    ) -> tuple[Tensor, RnnState]:
        gates = self.decoder.project(self.target_embedding(tokens))
        return self.decoder.step(gates, state, record and record.under("decoder"))


class Bridge(nn.Module):
    """The encoder's last states as the decoder's first: unchanged if the sizes agree, else projected.

    A projected hidden state goes through tanh, as in an RNN; a projected LSTM cell does not.
    """

    def __init__(self, config: RnnConfig) -> None:
        super().__init__()
        parts = 2 if config.cell == "lstm" else 1
        self.projections = nn.ModuleList(
            nn.Linear(config.encoder_size, config.hidden)
            for _ in range(config.layers * parts)
            if config.encoder_size != config.hidden
        )

    def forward(self, last: list[LayerState]) -> list[LayerState]:
        if not self.projections:
            return last
        projections = iter(self.projections)
        projected = [tuple(next(projections)(part) for part in layer) for layer in last]
        return [(torch.tanh(h), *cell) for h, *cell in projected]


class Decoder(nn.Module):
    """Decoder without attention: its only input from the source is its first state.

    Args:
        config: Sizes and settings.
        fed: Size of the vector that each step takes in addition to the embedding: [fed; embedding].
    """

    def __init__(self, config: RnnConfig, fed: int = 0) -> None:
        super().__init__()
        self.fed = fed
        self.rnn = Recurrent(
            config.cell, fed + config.embedding, config.hidden, config.layers, dropout=config.dropout
        )

    def begin(self, layers: list[LayerState], encoded: Tensor, mask: Tensor | None) -> RnnState:
        """The state before the first token; `encoded` (batch, source, size) is the encoder's output."""
        return RnnState(layers)

    def project(self, embedded: Tensor) -> Tensor:
        """The contribution of the embeddings to the gates: (..., embedding) -> (..., gates)."""
        return self.rnn.project(embedded, self.fed)

    def forward(self, embedded: Tensor, state: RnnState, record: Recorder | None = None) -> Tensor:
        """All steps, teacher-forced: (batch, target, embedding) -> (batch, target, hidden)."""
        hidden, _ = self.rnn(embedded, None, state.layers)
        return cast(Tensor, hidden)

    def step(self, gates: Tensor, state: RnnState, record: Recorder | None = None) -> tuple[Tensor, RnnState]:
        """One step: s_t = RNN(y_{t-1}, s_{t-1}); returns (batch, hidden) and a new state."""
        top, layers = self.rnn.step(gates, state.layers)
        return top, replace(state, layers=layers)

    def step_by_step(self, embedded: Tensor, state: RnnState, record: Recorder | None) -> Tensor:
        """All steps in sequence, if a step depends on the result of the previous one."""
        outputs = []
        for gates in self.project(embedded).unbind(1):
            hidden, state = self.step(gates, state, record)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)


class AttentionDecoder(Decoder):
    """Decoder with attention to all states of the encoder; base of Bahdanau's and Luong's."""

    def __init__(self, config: RnnConfig, fed: int = 0) -> None:
        super().__init__(config, fed)
        self.attention = Attention(encoder_score(config))

    def begin(self, layers: list[LayerState], encoded: Tensor, mask: Tensor | None) -> RnnState:
        return RnnState(layers, self.attention.project_kv(encoded), mask)

    def context(self, query: Tensor, state: RnnState, record: Recorder | None) -> Tensor:
        """c = sum_i alpha_i h_i for each query (batch, query, hidden): (batch, query, encoder size)."""
        assert state.memory is not None
        attended = self.attention(query, state.memory, mask=state.mask, record=record and record.under("cross"))
        return cast(Tensor, attended)


class BahdanauDecoder(AttentionDecoder):
    """Attend with the previous state, then update it (Bahdanau et al. 2015).

    c_t from s_{t-1}; s_t = RNN([c_t; y_{t-1}], s_{t-1}). At the first step s_0 is the encoder's last state.
    """

    def __init__(self, config: RnnConfig) -> None:
        super().__init__(config, fed=config.encoder_size)

    def forward(self, embedded: Tensor, state: RnnState, record: Recorder | None = None) -> Tensor:
        return self.step_by_step(embedded, state, record)

    def step(self, gates: Tensor, state: RnnState, record: Recorder | None = None) -> tuple[Tensor, RnnState]:
        context = self.context(state.top.unsqueeze(1), state, record).squeeze(1)
        return super().step(gates + self.rnn.project(context), state)


class LuongDecoder(AttentionDecoder):
    """Update the state, then attend with the new one (Luong et al. 2015).

    s_t = RNN(y_{t-1}, s_{t-1}); c_t from s_t; the attentional vector tanh(W_c [c_t; s_t]) is the output, and
    with input feeding also an input of the next step.
    """

    def __init__(self, config: RnnConfig) -> None:
        super().__init__(config, fed=config.hidden if config.input_feeding else 0)
        self.combine = nn.Linear(config.encoder_size + config.hidden, config.hidden, bias=False)
        nn.init.xavier_uniform_(self.combine.weight)

    def begin(self, layers: list[LayerState], encoded: Tensor, mask: Tensor | None) -> RnnState:
        state = super().begin(layers, encoded, mask)
        return replace(state, fed=torch.zeros_like(state.top)) if self.fed else state

    def forward(self, embedded: Tensor, state: RnnState, record: Recorder | None = None) -> Tensor:
        if self.fed:
            return self.step_by_step(embedded, state, record)
        # Without input feeding the recurrence does not depend on attention: all steps attend at once.
        return self.attentional(super().forward(embedded, state), state, record)

    def step(self, gates: Tensor, state: RnnState, record: Recorder | None = None) -> tuple[Tensor, RnnState]:
        if state.fed is not None:
            gates = gates + self.rnn.project(state.fed)
        top, state = super().step(gates, state)
        vector = self.attentional(top.unsqueeze(1), state, record).squeeze(1)
        return vector, replace(state, fed=vector) if self.fed else state

    def attentional(self, states: Tensor, state: RnnState, record: Recorder | None) -> Tensor:
        """Attentional vectors tanh(W_c [c; s]) for states s (batch, steps, hidden)."""
        context = self.context(states, state, record)
        return torch.tanh(self.combine(torch.cat([context, states], dim=-1)))


def make_decoder(config: RnnConfig) -> Decoder:
    match config.attention:
        case "none":
            return Decoder(config)
        case "bahdanau":
            return BahdanauDecoder(config)
        case "luong":
            return LuongDecoder(config)


def encoder_score(config: RnnConfig) -> Score:
    """The score between the decoder's state and the encoder's states."""
    assert config.score is not None
    return make_score(config.score, config.hidden, config.encoder_size, config.score_size)


def reverse_sequences(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sequence of (batch, time, ...) in reverse order; padding stays at the end."""
    if lengths is None:
        return x.flip(1)
    position = torch.arange(x.size(1), device=x.device)
    mirrored = lengths.unsqueeze(1) - 1 - position
    index = torch.where(mirrored >= 0, mirrored, position)
    return x[torch.arange(x.size(0), device=x.device).unsqueeze(1), index]
