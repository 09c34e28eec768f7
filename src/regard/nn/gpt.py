"""GPT (Radford et al. 2018): a Transformer decoder without cross-attention that predicts the next token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.models import GptConfig
from regard.nn.blocks import DecoderBlock
from regard.nn.kv_cache import KvCache, KvCacheStep
from regard.nn.masks import causal_mask
from regard.nn.positions import Learned
from regard.nn.recorder import Recorder
from regard.nn.transformer import Decoder

INITIAL_STD = 0.02
"""Standard deviation of initial weights, as in GPT."""

PADDING = -1
"""Id of the padding, which occurs only at the end of a sequence; no vocabulary contains it."""

SYMBOLS = 3
"""Ids after those of the vocabulary, for fine-tuning: [START], [DELIM] and [EXTRACT]."""


class Gpt(nn.Module):
    """Token embeddings and a decoder without cross-attention.

    Args:
        config: Sizes and settings.
        vocabulary: Number of ids.
        symbols: Number of ids after those of the vocabulary, with embeddings of their own.
    """

    padding = PADDING

    def __init__(self, config: GptConfig, vocabulary: int, symbols: int = 0) -> None:
        super().__init__()
        self.max_length = config.max_length
        self.token_embedding = nn.Embedding(vocabulary, config.d_model)
        self.symbol_embedding = nn.Embedding(symbols, config.d_model) if symbols else None
        self.decoder = Decoder(config, config.layers, cross=False)
        self.dropout = nn.Dropout(config.dropout)
        init_weights(self, config)

    def forward(self, ids: Tensor, segments: Tensor | None = None, record: Recorder | None = None) -> Tensor:
        """ids (batch, length) -> hidden states (batch, length, d_model); segments are ignored."""
        hidden = self.decoder(
            self.embed(ids.clamp(min=0)),
            # Padding stands at the end, so the causal mask hides it from every token.
            mask=causal_mask(ids.size(1), device=ids.device),
            record=record and record.under("decoder"),
            dropout=self.dropout,
        )
        return cast(Tensor, hidden)

    def embed(self, ids: Tensor) -> Tensor:
        """Token embeddings without positions: (...) -> (..., d_model)."""
        if self.symbol_embedding is None:
            return cast(Tensor, self.token_embedding(ids))
        last = self.token_embedding.num_embeddings - 1
        tokens = self.token_embedding(ids.clamp(max=last))
        symbols = self.symbol_embedding((ids - last - 1).clamp(0))
        return torch.where((ids > last).unsqueeze(-1), symbols, tokens)


class GptLanguageModel(nn.Module):
    """A GPT with a language-model head: the token embeddings as the output layer, without a bias."""

    def __init__(self, gpt: Gpt) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, ids: Tensor, record: Recorder | None = None) -> Tensor:
        """Scores of the next token at every position: (batch, length) -> (batch, length, vocabulary)."""
        return self.scores(self.gpt(ids, record=record))

    def scores(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., d_model) -> scores of the next token (..., vocabulary)."""
        return functional.linear(hidden, self.gpt.token_embedding.weight)

    def start(self, source: Tensor) -> "GptState":
        """The state after a prompt of ids (batch, length), which may be empty."""
        state = GptState(
            tuple(KvCache(capacity=self.gpt.max_length) for _ in self.gpt.decoder.blocks), source[:, :0]
        )
        return self.decode(source, state)[1] if source.size(1) else state

    def step(
        self, tokens: Tensor, state: "GptState", record: Recorder | None = None
    ) -> tuple[Tensor, "GptState"]:
        """One token per sequence (batch,) -> scores of the next (batch, vocabulary), and a new state.

        When the context window is full, its second half is encoded again, starting at the first position.
        """
        if state.ids.size(1) == self.gpt.max_length:
            state = self.start(state.ids[:, self.gpt.max_length - self.gpt.max_length // 2 :])
        hidden, state = self.decode(tokens.unsqueeze(1), state, record)
        return self.scores(hidden.squeeze(1)), state

    def decode(
        self, ids: Tensor, state: "GptState", record: Recorder | None = None
    ) -> tuple[Tensor, "GptState"]:
        """Further tokens (batch, length) -> their hidden states (batch, length, d_model), and a new state."""
        length = ids.size(1)
        mask = None if length == 1 else causal_mask(length, state.ids.size(1) + length, device=ids.device)
        caches = [KvCacheStep(cache) for cache in state.caches]
        hidden = self.gpt.decoder(
            self.gpt.embed(ids), mask=mask, caches=caches, record=record and record.under("decoder")
        )
        new = GptState(tuple(step.cache for step in caches), torch.cat([state.ids, ids], dim=1))
        return cast(Tensor, hidden), new


@dataclass(frozen=True)
class GptState:
    """Keys and values of the tokens so far, for each sequence of the batch."""

    caches: Sequence[KvCache]
    ids: Tensor  # (batch, length): the tokens whose keys and values are in the caches

    def select(self, rows: Tensor) -> "GptState":
        return GptState(tuple(cache.select(rows) for cache in self.caches), self.ids.index_select(0, rows))


class GptClassifier(nn.Module):
    """One label for a text or a pair of texts, from the hidden state at [EXTRACT], the last token."""

    learns_to_prune = False
    """Tokens are not pruned: in a causal model only later tokens attend to a token."""

    def __init__(self, gpt: Gpt, config: GptConfig, labels: int) -> None:
        super().__init__()
        self.gpt = gpt
        self.dropout = nn.Dropout(config.dropout)
        self.labels = nn.Linear(config.d_model, labels)
        nn.init.normal_(self.labels.weight, std=INITIAL_STD)
        nn.init.zeros_(self.labels.bias)

    def forward(self, ids: Tensor, segments: Tensor | None = None) -> Tensor:
        """(batch, length) -> scores (batch, labels)."""
        hidden = self.gpt(ids)
        last = (ids != PADDING).sum(1) - 1
        return self.classify(hidden[torch.arange(len(ids), device=ids.device), last])

    def classify(self, last: Tensor) -> Tensor:
        """Hidden states of the last tokens (batch, d_model) -> scores (batch, labels)."""
        return cast(Tensor, self.labels(self.dropout(last)))


def init_weights(gpt: Gpt, config: GptConfig) -> None:
    """Normal weights with a small standard deviation, zero biases.

    With pre-norm, the layers that add to the residual stream are scaled by 1 / sqrt(2 layers) (Radford et al.
    2019, section 2.3).
    """
    for module in gpt.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=INITIAL_STD)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, Learned):
            nn.init.normal_(module.table, std=INITIAL_STD)
    if config.norm == "pre":
        for block in gpt.decoder.blocks:
            for layer in residual_layers(cast(DecoderBlock, block)):
                nn.init.normal_(layer.weight, std=INITIAL_STD / (2 * config.layers) ** 0.5)


def residual_layers(block: DecoderBlock) -> tuple[nn.Linear, nn.Linear]:
    """The two layers of a block whose result is added to the residual stream."""
    attention = block.self_attention.sublayer.attention
    return cast(nn.Linear, attention.output), cast(nn.Linear, block.feed_forward.sublayer.fc2)  # type: ignore[union-attr]
