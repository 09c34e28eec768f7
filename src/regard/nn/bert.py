"""BERT (Devlin et al. 2019): a bidirectional encoder for a text or a pair of texts, and its heads."""

from typing import cast

import torch
from torch import Tensor, nn

from regard.config.models import BertConfig, Pooling
from regard.nn.blocks import BlockShape, EncoderBlock, EncoderStack
from regard.nn.feed_forward import ACTIVATIONS
from regard.nn.masks import padding_mask
from regard.nn.positions import Learned
from regard.nn.recorder import Recorder
from regard.nn.token_reduction import Merging, Pruning, ReducedTokens, SoftPruned, reduce_tokens

INITIAL_STD = 0.02
"""Standard deviation of initial weights, as in BERT."""


class Bert(nn.Module):
    """Token, segment and position embeddings, and encoder blocks.

    Args:
        config: Sizes and settings.
        vocabulary: Number of ids.
        padding: Id of the padding, which stands at the end of a sequence only.
    """

    def __init__(self, config: BertConfig, vocabulary: int, padding: int) -> None:
        super().__init__()
        self.padding = padding
        self.token_embedding = nn.Embedding(vocabulary, config.d_model)
        self.segment_embedding = nn.Embedding(config.segments, config.d_model)
        self.position_embedding = Learned(config.d_model, config.max_length)
        self.norm = nn.LayerNorm(config.d_model, eps=config.epsilon)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = EncoderStack(EncoderBlock(block_shape(config)) for _ in range(config.layers))
        self.pooler = nn.Linear(config.d_model, config.d_model)
        self.reduction: Merging | Pruning | None = None
        """Token reduction from block to block; not used while attention is recorded."""
        self.apply(init_weights)
        nn.init.trunc_normal_(self.position_embedding.table, std=INITIAL_STD)

    def forward(
        self, ids: Tensor, segments: Tensor, record: Recorder | None = None, *, positions: Tensor | None = None
    ) -> Tensor:
        """Hidden states of the tokens; those at padding are undefined.

        Args:
            ids, segments: (batch, length).
            record: Collects attention weights; turns token reduction off.
            positions: (positions,), indices into the flattened batch: return the hidden states of these only.

        Returns:
            (batch, length, d_model), or (positions, d_model). Merged tokens have the hidden state of the token
            that they were merged into.
        """
        if record is None and self.reduction is not None:
            hidden = self.reduced(ids, segments, first_only=False).unmerged()
        else:
            x, mask = self.dropout(self.embed(ids, segments)), padding_mask(ids, self.padding)
            hidden = self.blocks(x, mask=mask, record=record and record.under("encoder"))
        return hidden if positions is None else hidden.flatten(0, 1).index_select(0, positions)

    def first(self, ids: Tensor, segments: Tensor) -> Tensor:
        """Hidden states at [CLS]: (batch, length) -> (batch, d_model)."""
        if self.reduction is None:
            return cast(Tensor, self(ids, segments, positions=first_positions(ids)))
        return self.reduced(ids, segments, first_only=True).x[:, 0]

    def reduced(self, ids: Tensor, segments: Tensor, *, first_only: bool) -> ReducedTokens:
        """The tokens after token reduction; with `first_only` the last block computes [CLS] alone."""
        assert self.reduction is not None
        x, nonpad = self.dropout(self.embed(ids, segments)), ids != self.padding
        return reduce_tokens(self.blocks, x, nonpad, self.reduction, first_only=first_only)

    def soft_pruned(self, ids: Tensor, segments: Tensor) -> SoftPruned:
        """All tokens after soft pruning, while thresholds are learned."""
        assert isinstance(self.reduction, Pruning)
        x = self.dropout(self.embed(ids, segments))
        return self.reduction.soft_prune(self.blocks, x, ids != self.padding)

    def embed(self, ids: Tensor, segments: Tensor, positions: Tensor | None = None) -> Tensor:
        """Embeddings without dropout: ids (..., length) at `positions` (length,) -> (..., length, d_model)."""
        x = self.token_embedding(ids) + self.segment_embedding(segments)
        scheme = self.position_embedding
        x = scheme.embed(x) if positions is None else scheme.embed_at(x, positions)
        return cast(Tensor, self.norm(x))

    def pooled(self, first: Tensor) -> Tensor:
        """BERT's pooler on the hidden states at [CLS]: (batch, d_model) -> (batch, d_model)."""
        return torch.tanh(self.pooler(first))


class TextEmbedder(nn.Module):
    """One vector for each text, pooled from the hidden states of a BERT or a GPT."""

    def __init__(self, bert: nn.Module, pooling: Pooling = "mean") -> None:
        super().__init__()
        self.bert = bert
        self.pooling: Pooling = pooling

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        """(batch, length) -> (batch, d_model)."""
        return self.pool(self.bert(ids, segments), ids.ne(cast(int, self.bert.padding)))

    def pool(self, hidden: Tensor, nonpad: Tensor) -> Tensor:
        """Hidden states (batch, length, d_model), nonpad (batch, length) -> (batch, d_model)."""
        return pool(hidden, nonpad, self.pooling)


class BertPretrainer(nn.Module):
    """BERT's pretraining heads: masked language model and next-sentence prediction."""

    def __init__(self, bert: Bert, config: BertConfig) -> None:
        super().__init__()
        self.bert = bert
        self.transform = nn.Linear(config.d_model, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = nn.LayerNorm(config.d_model, eps=config.epsilon)
        self.output_bias = nn.Parameter(torch.zeros(bert.token_embedding.num_embeddings))
        self.next_sentence = nn.Linear(config.d_model, 2)
        for module in (self.transform, self.next_sentence):
            init_weights(module)

    def forward(self, ids: Tensor, segments: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Both heads, for masked tokens at `positions`, indices into the flattened batch; see `heads`."""
        return self.heads(
            self.bert(ids, segments, positions=torch.cat([first_positions(ids), positions])), len(ids)
        )

    def heads(self, hidden: Tensor, batch: int) -> tuple[Tensor, Tensor]:
        """Both heads from hidden states.

        Args:
            hidden: (batch + positions, d_model), hidden states at [CLS] and then at the masked tokens.
            batch: Number of texts.

        Returns:
            Vectors for `output` (positions, d_model), and next-sentence scores (batch, 2), whose first column
            is "the second text follows the first".
        """
        first, masked = hidden[:batch], hidden[batch:]
        return self.masked(masked), self.next_sentence(self.bert.pooled(first))

    def masked(self, hidden: Tensor) -> Tensor:
        """Vectors for `output` from hidden states: (..., d_model) -> (..., d_model)."""
        return cast(Tensor, self.norm(self.activation(self.transform(hidden))))

    @property
    def output(self) -> tuple[Tensor, Tensor]:
        """Weight (vocabulary, d_model), the token embeddings, and bias (vocabulary,)."""
        return self.bert.token_embedding.weight, self.output_bias


class BertClassifier(nn.Module):
    """One label for a text or a pair of texts, from the hidden state at [CLS]."""

    def __init__(self, bert: Bert, config: BertConfig, labels: int) -> None:
        super().__init__()
        self.bert = bert
        self.dropout = nn.Dropout(config.dropout)
        self.labels = nn.Linear(config.d_model, labels)
        init_weights(self.labels)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        """(batch, length) -> scores (batch, labels)."""
        return self.classify(self.bert.first(ids, segments))

    def classify(self, first: Tensor) -> Tensor:
        """Hidden states at [CLS] (batch, d_model) -> scores (batch, labels)."""
        return cast(Tensor, self.labels(self.dropout(self.bert.pooled(first))))

    @property
    def learns_to_prune(self) -> bool:
        return isinstance(self.bert.reduction, Pruning) and self.bert.reduction.soft

    def soft_pruned(self, ids: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        """Scores while pruning thresholds are learned, and the penalty for keeping too many tokens."""
        assert isinstance(self.bert.reduction, Pruning)
        pruned = self.bert.soft_pruned(ids, segments)
        return self.classify(pruned.x[:, 0]), self.bert.reduction.penalty(pruned)


class BertTagger(nn.Module):
    """A tag for each token."""

    def __init__(self, bert: Bert, config: BertConfig, tags: int) -> None:
        super().__init__()
        self.bert = bert
        self.dropout = nn.Dropout(config.dropout)
        self.tags = nn.Linear(config.d_model, tags)
        init_weights(self.tags)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        """(batch, length) -> scores (batch, length, tags)."""
        return self.tag(self.bert(ids, segments))

    def tag(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., d_model) -> scores (..., tags)."""
        return cast(Tensor, self.tags(self.dropout(hidden)))


class BertAnswerer(nn.Module):
    """Extractive question answering: scores of where the answer begins and ends."""

    def __init__(self, bert: Bert, config: BertConfig) -> None:
        super().__init__()
        self.bert = bert
        self.edges = nn.Linear(config.d_model, 2)
        init_weights(self.edges)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        """(batch, length) -> scores of start and end (batch, 2, length), lowest at padding."""
        return self.spans(self.bert(ids, segments), ids != self.bert.padding)

    def spans(self, hidden: Tensor, nonpad: Tensor) -> Tensor:
        """Hidden states (batch, length, d_model), nonpad (batch, length) -> scores (batch, 2, length)."""
        scores = self.edges(hidden).transpose(1, 2)
        lowest = torch.finfo(scores.dtype).min
        return cast(Tensor, scores.masked_fill(~nonpad.unsqueeze(1), lowest))


def first_positions(ids: Tensor) -> Tensor:
    """Indices of the first tokens in the flattened batch: (batch, length) -> (batch,)."""
    return torch.arange(len(ids), device=ids.device) * ids.size(1)


def pool(hidden: Tensor, nonpad: Tensor, pooling: Pooling) -> Tensor:
    """One vector per text.

    Args:
        hidden: (batch, length, d_model).
        nonpad: (batch, length), True at tokens.
        pooling: "mean" or "max" over the tokens, or "cls", the first token.

    Returns:
        (batch, d_model).
    """
    match pooling:
        case "mean":
            return masked_mean(hidden, nonpad)
        case "cls":
            return hidden[:, 0]
        case "max":
            return hidden.masked_fill(~nonpad.unsqueeze(-1), -torch.inf).amax(1)


def masked_mean(hidden: Tensor, nonpad: Tensor) -> Tensor:
    """Mean over the tokens: (batch, length, d_model), (batch, length) -> (batch, d_model)."""
    weight = nonpad.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)


def block_shape(config: BertConfig) -> BlockShape:
    return BlockShape(
        d_model=config.d_model,
        heads=config.heads,
        d_ff=config.d_ff,
        dropout=config.dropout,
        inner_dropout=0.0,
        attention_dropout=config.attention_dropout,
        norm="post",
        activation=config.activation,
        epsilon=config.epsilon,
        score=config.score,
    )


def init_weights(module: nn.Module) -> None:
    """BERT's initialisation: normal weights truncated at two standard deviations, zero biases."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=INITIAL_STD, a=-2 * INITIAL_STD, b=2 * INITIAL_STD)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
