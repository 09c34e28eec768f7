"""Sequence to sequence with recurrent networks: no attention (Sutskever et al. 2014), Bahdanau's, Luong's.

One encoder; three decoders, each a few lines that follow their paper. The order is what tells them apart:
Bahdanau looks with the state before and then moves on, Luong moves on and then looks with the new state.
"""

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from regard.config import RnnModel
from regard.nn.attention import Attention
from regard.nn.dropout import Dropout
from regard.nn.kv_cache import KeyValue
from regard.nn.masks import padding_mask
from regard.nn.recorder import Recorder
from regard.nn.recurrent import LayerState, Recurrent
from regard.nn.scores import Additive, Concat, Dot, General, Score
from regard.nn.seq2seq import Seq2SeqModel


@dataclass(frozen=True)
class RnnState:
    """What the decoder knows between two steps, for each sentence of the batch; its size never grows."""

    layers: list[LayerState]
    memory: KeyValue | None = None
    """The encoder's states, where the decoder may look back at them."""
    mask: Tensor | None = None  # (batch, 1, source); None when nothing is padding
    fed: Tensor | None = None
    """The attentional vector (batch, hidden) of the step before, where it is fed in."""

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
    """Encoder and decoder with their embeddings; `padding` is the id that stands for nothing."""

    def __init__(self, config: RnnModel, source_vocabulary: int, target_vocabulary: int, padding: int) -> None:
        super().__init__(
            config.share, config.embedding, config.hidden, source_vocabulary, target_vocabulary, padding
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
        self.dropout = Dropout(config.dropout)

    def hidden(self, source: Tensor, target: Tensor, record: Recorder | None = None) -> Tensor:
        """What goes to the output at every place of the target, its words given: (batch, target, hidden)."""
        embedded = self.dropout(self.target_embedding(target))
        written = self.decoder(embedded, self.start(source), record and record.under("decoder"))
        return cast(Tensor, self.dropout(written))

    def start(self, source: Tensor) -> RnnState:
        """Read the source once; the encoder's last state is the decoder's first."""
        real = source != self.padding
        lengths = None if bool(real.all()) else real.sum(1)
        read = turned(source, lengths) if self.reverse else source
        encoded, last = self.encoder(self.dropout(self.source_embedding(read)), lengths)
        if self.reverse:  # what is remembered stands in the order of the source again
            encoded = turned(encoded, lengths)
        mask = None if lengths is None else padding_mask(source, self.padding)
        return self.decoder.begin(self.bridge(last), encoded, mask)

    def next_hidden(
        self, tokens: Tensor, state: RnnState, record: Recorder | None = None
    ) -> tuple[Tensor, RnnState]:
        gates = self.decoder.project(self.target_embedding(tokens))
        return self.decoder.step(gates, state, record and record.under("decoder"))


class Bridge(nn.Module):
    """Hands the encoder's last states to the decoder: as they are where sizes agree, else projected.

    A projected state goes through tanh, as a state does; a projected LSTM cell does not.
    """

    def __init__(self, config: RnnModel) -> None:
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
    """Without attention: all it knows of the source is the state it starts with."""

    def __init__(self, config: RnnModel, fed: int = 0) -> None:
        """`fed` is the size of what each step takes in beside the word, before it: [fed; embedding]."""
        super().__init__()
        self.fed = fed
        self.rnn = Recurrent(
            config.cell, fed + config.embedding, config.hidden, config.layers, dropout=config.dropout
        )

    def begin(self, layers: list[LayerState], encoded: Tensor, mask: Tensor | None) -> RnnState:
        """The state before the first token; `encoded` (batch, source, size) is what the encoder said."""
        return RnnState(layers)

    def project(self, embedded: Tensor) -> Tensor:
        """What the words bring to the gates, for one step or for all: (..., embedding) -> (..., gates)."""
        return self.rnn.project(embedded, self.fed)

    def forward(self, embedded: Tensor, state: RnnState, record: Recorder | None = None) -> Tensor:
        """All steps, the right words given: (batch, target, embedding) -> (batch, target, hidden)."""
        written, _ = self.rnn(embedded, None, state.layers)
        return cast(Tensor, written)

    def step(self, gates: Tensor, state: RnnState, record: Recorder | None = None) -> tuple[Tensor, RnnState]:
        """One step: s_t = RNN(y_{t-1}, s_{t-1}); gives (batch, hidden) and the state after it."""
        top, layers = self.rnn.step(gates, state.layers)
        return top, replace(state, layers=layers)

    def step_by_step(self, embedded: Tensor, state: RnnState, record: Recorder | None) -> Tensor:
        """All steps one after another, where a step needs what the one before it found."""
        written = []
        for gates in self.project(embedded).unbind(1):
            hidden, state = self.step(gates, state, record)
            written.append(hidden)
        return torch.stack(written, dim=1)


class Attentive(Decoder):
    """A decoder that may look back at every state of the encoder."""

    def __init__(self, config: RnnModel, fed: int = 0) -> None:
        super().__init__(config, fed)
        self.attention = Attention(make_score(config))

    def begin(self, layers: list[LayerState], encoded: Tensor, mask: Tensor | None) -> RnnState:
        return RnnState(layers, self.attention.project_kv(encoded), mask)

    def context(self, query: Tensor, state: RnnState, record: Recorder | None) -> Tensor:
        """c = sum_i alpha_i h_i for each query (batch, query, hidden): (batch, query, encoder size)."""
        assert state.memory is not None
        looked = self.attention(query, state.memory, mask=state.mask, record=record and record.under("cross"))
        return cast(Tensor, looked)


class Bahdanau(Attentive):
    """Look with the state before, then move on (Bahdanau et al. 2015).

    c_t from s_{t-1}; s_t = RNN([c_t; y_{t-1}], s_{t-1}). At the first step s_0 is the encoder's last state.
    """

    def __init__(self, config: RnnModel) -> None:
        super().__init__(config, fed=config.encoder_size)

    def forward(self, embedded: Tensor, state: RnnState, record: Recorder | None = None) -> Tensor:
        return self.step_by_step(embedded, state, record)

    def step(self, gates: Tensor, state: RnnState, record: Recorder | None = None) -> tuple[Tensor, RnnState]:
        context = self.context(state.top.unsqueeze(1), state, record).squeeze(1)
        return super().step(gates + self.rnn.project(context), state)


class Luong(Attentive):
    """Move on, then look with the new state (Luong et al. 2015).

    s_t = RNN(y_{t-1}, s_{t-1}); c_t from s_t; the attentional vector tanh(W_c [c_t; s_t]) goes to the output,
    and with input feeding into the next step as well.
    """

    def __init__(self, config: RnnModel) -> None:
        super().__init__(config, fed=config.hidden if config.input_feeding else 0)
        self.combine = nn.Linear(config.encoder_size + config.hidden, config.hidden, bias=False)
        nn.init.xavier_uniform_(self.combine.weight)

    def begin(self, layers: list[LayerState], encoded: Tensor, mask: Tensor | None) -> RnnState:
        state = super().begin(layers, encoded, mask)
        return replace(state, fed=torch.zeros_like(state.top)) if self.fed else state

    def forward(self, embedded: Tensor, state: RnnState, record: Recorder | None = None) -> Tensor:
        if self.fed:
            return self.step_by_step(embedded, state, record)
        # Nothing that was looked at comes back into the recurrence: all steps can look at once.
        return self.attentional(super().forward(embedded, state), state, record)

    def step(self, gates: Tensor, state: RnnState, record: Recorder | None = None) -> tuple[Tensor, RnnState]:
        if state.fed is not None:
            gates = gates + self.rnn.project(state.fed)
        top, state = super().step(gates, state)
        vector = self.attentional(top.unsqueeze(1), state, record).squeeze(1)
        return vector, replace(state, fed=vector) if self.fed else state

    def attentional(self, states: Tensor, state: RnnState, record: Recorder | None) -> Tensor:
        """tanh(W_c [c; s]) for states s (batch, steps, hidden)."""
        context = self.context(states, state, record)
        return torch.tanh(self.combine(torch.cat([context, states], dim=-1)))


def make_decoder(config: RnnModel) -> Decoder:
    match config.attention:
        case "none":
            return Decoder(config)
        case "bahdanau":
            return Bahdanau(config)
        case "luong":
            return Luong(config)


def make_score(config: RnnModel) -> Score:
    """How a decoder's state meets an encoder's."""
    match config.score:
        case "dot":
            return Dot()
        case "general":
            return General(config.hidden, config.encoder_size)
        case "concat":
            return Concat(config.hidden, config.encoder_size, config.score_size or config.hidden)
        case _:
            return Additive(config.hidden, config.encoder_size, config.score_size or config.hidden)


def turned(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sentence of (batch, time, ...) from its end to its beginning; padding stays where it is."""
    if lengths is None:
        return x.flip(1)
    place = torch.arange(x.size(1), device=x.device)
    mirrored = lengths.unsqueeze(1) - 1 - place
    index = torch.where(mirrored >= 0, mirrored, place)
    return x[torch.arange(x.size(0), device=x.device).unsqueeze(1), index]
