"""GPT (Radford et al. 2018): the Transformer's decoder by itself, asked for what comes next."""

from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config import GptModel
from regard.nn.apart import Ends
from regard.nn.blocks import DecoderBlock
from regard.nn.dropout import Dropout
from regard.nn.kv_cache import KvCache
from regard.nn.masks import causal_mask
from regard.nn.positions import Learned
from regard.nn.recorder import Recorder
from regard.nn.transformer import Decoder

STARTING_SPREAD = 0.02
"""Standard deviation of fresh weights, as GPT has it."""

PADDING = -1
"""Stands for nothing at the end of a row; no vocabulary has such an id."""

SYMBOLS = 3
"""Ids after those of the vocabulary, for fine-tuning: [START], [DELIM] and [EXTRACT]."""


class GptAccelerator(Protocol):
    """A second implementation of a GPT's forward pass, for packed batches."""

    def rows(self, ids: Tensor, ends: Ends) -> Tensor | None:
        """The vectors of all tokens (tokens, d_model); None where it does not support the model as it is."""


class Gpt(nn.Module):
    """Vectors of tokens, and a decoder without cross-attention.

    `symbols` more ids follow those of the vocabulary, with vectors of their own.
    """

    padding = PADDING

    def __init__(self, config: GptModel, vocabulary: int, symbols: int = 0) -> None:
        super().__init__()
        self.max_length = config.longest
        self.token_embedding = nn.Embedding(vocabulary, config.d_model)
        self.symbol_embedding = nn.Embedding(symbols, config.d_model) if symbols else None
        self.decoder = Decoder(config, config.layers, cross=False)
        self.dropout = Dropout(config.dropout)
        self.accelerator: GptAccelerator | None = None
        """Computes `rows` natively where it can; set by `regard.engine.attach`."""
        start_weights(self, config)

    def forward(self, ids: Tensor, segments: Tensor | None = None, record: Recorder | None = None) -> Tensor:
        """ids (texts, length) -> (texts, length, d_model); segments mean nothing to it, nor does padding."""
        hidden = self.decoder(
            self.embed(ids.clamp(min=0)),
            # Padding stands at the end, where no real token may look anyway.
            mask=causal_mask(ids.size(1), device=ids.device),
            record=record and record.under("decoder"),
            dropout=self.dropout,
        )
        return cast(Tensor, hidden)

    def rows(self, ids: Tensor) -> tuple[Tensor, Ends]:
        """The vectors of all tokens, packed: (tokens, d_model), and where the texts end."""
        ends = Ends.of(ids, PADDING)
        packed = None if self.accelerator is None else self.accelerator.rows(ids, ends)
        return (self(ids)[ends.real] if packed is None else packed), ends

    def embed(self, ids: Tensor) -> Tensor:
        """(...) -> (..., d_model), without positions."""
        if self.symbol_embedding is None:
            return cast(Tensor, self.token_embedding(ids))
        last = self.token_embedding.num_embeddings - 1
        words, symbols = (
            self.token_embedding(ids.clamp(max=last)),
            self.symbol_embedding((ids - last - 1).clamp(0)),
        )
        return torch.where((ids > last).unsqueeze(-1), symbols, words)


class GptWriter(nn.Module):
    """A GPT that is asked for the next token; the output is the table of the embeddings, without a bias."""

    def __init__(self, gpt: Gpt) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, ids: Tensor, record: Recorder | None = None) -> Tensor:
        """Scores of the next token at every place: (texts, length) -> (texts, length, vocabulary)."""
        return self.scores(self.gpt(ids, record=record))

    def scores(self, hidden: Tensor) -> Tensor:
        return functional.linear(hidden, self.gpt.token_embedding.weight)

    def start(self, source: Tensor) -> "GptState":
        """Read ids (texts, length), of which there may be none; more than the window are not read."""
        state = GptState([KvCache(self.gpt.max_length) for _ in self.gpt.decoder.blocks], source[:, :0])
        return self.read(source, state) if source.size(1) else state

    def step(
        self, tokens: Tensor, state: "GptState", record: Recorder | None = None
    ) -> tuple[Tensor, "GptState"]:
        """One token each (texts,) -> scores (texts, vocabulary).

        A window that is full slides: its later half is read anew, from the first place on.
        """
        if state.ids.size(1) == self.gpt.max_length:
            state = self.start(state.ids[:, self.gpt.max_length - self.gpt.max_length // 2 :])
        hidden = self.decoded(tokens.unsqueeze(1), state, record)
        return self.scores(hidden.squeeze(1)), state.grown(tokens.unsqueeze(1))

    def read(self, ids: Tensor, state: "GptState") -> "GptState":
        self.decoded(ids, state)
        return state.grown(ids)

    def decoded(self, ids: Tensor, state: "GptState", record: Recorder | None = None) -> Tensor:
        """Tokens (texts, length) that continue those remembered."""
        length = ids.size(1)
        mask = None if length == 1 else causal_mask(length, state.ids.size(1) + length, device=ids.device)
        return cast(
            Tensor,
            self.gpt.decoder(
                self.gpt.embed(ids),
                mask=mask,
                caches=state.caches,
                record=record and record.under("decoder"),
            ),
        )


@dataclass(frozen=True)
class GptState:
    """What was read and written so far, for each text of the batch."""

    caches: list[KvCache]
    ids: Tensor  # (texts, length): the tokens whose keys and values are in the caches

    def grown(self, ids: Tensor) -> "GptState":
        return GptState(self.caches, torch.cat([self.ids, ids], dim=1))

    def select(self, rows: Tensor) -> "GptState":
        return GptState([each.select(rows) for each in self.caches], self.ids.index_select(0, rows))


class GptClassifier(nn.Module):
    """One label for a text or a pair of texts, read at [EXTRACT], the last token."""

    learns_to_prune = False
    """Each of its tokens is looked at by those that follow, and by nobody else: none is dropped."""

    def __init__(self, gpt: Gpt, config: GptModel, labels: int) -> None:
        super().__init__()
        self.gpt = gpt
        self.dropout = Dropout(config.dropout)
        self.labels = nn.Linear(config.d_model, labels)
        nn.init.normal_(self.labels.weight, std=STARTING_SPREAD)
        nn.init.zeros_(self.labels.bias)

    def forward(self, ids: Tensor, segments: Tensor | None = None) -> Tensor:
        """(texts, length) -> scores (texts, labels)."""
        return self.judged(*self.gpt.rows(ids))

    def judged(self, rows: Tensor, ends: Ends) -> Tensor:
        """Scores (texts, labels) from the vectors of all tokens, text after text."""
        last = rows.index_select(0, ends.start[1:].long() - 1)
        return cast(Tensor, self.labels(self.dropout(last)))


def start_weights(gpt: Gpt, config: GptModel) -> None:
    """Matrices narrow and biases 0; with norms before, the narrower what is added the more often it is.

    Radford et al. 2019, section 2.3.
    """
    for module in gpt.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=STARTING_SPREAD)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, Learned):
            nn.init.normal_(module.table, std=STARTING_SPREAD)
    if config.norm == "pre":
        for block in gpt.decoder.blocks:
            for last in adding(cast(DecoderBlock, block)):
                nn.init.normal_(last.weight, std=STARTING_SPREAD / (2 * config.layers) ** 0.5)


def adding(block: DecoderBlock) -> tuple[nn.Linear, nn.Linear]:
    """The two maps of a block whose result is added to the stream."""
    attention = block.self_attention.sublayer.attention
    return cast(nn.Linear, attention.output), cast(nn.Linear, block.feed_forward.sublayer.fc2)  # type: ignore[union-attr]
