"""BERT (Devlin et al. 2019): an encoder that reads a text or a pair of them, and small heads that answer."""

from typing import Protocol, cast

import torch
from torch import Tensor, nn

from regard.config import BertModel, Pooling
from regard.nn.apart import Ends
from regard.nn.blocks import BlockShape, EncoderBlock, EncoderStack
from regard.nn.dropout import Dropout
from regard.nn.feed_forward import ACTIVATIONS
from regard.nn.masks import padding_mask
from regard.nn.positions import Learned
from regard.nn.recorder import Recorder
from regard.nn.token_reduction import Merging, Pruning, ReducedTokens, SoftPruned, reduced

STARTING_SPREAD = 0.02
"""Standard deviation of fresh weights, as BERT has it."""


class BertAccelerator(Protocol):
    """A second implementation of a BERT's forward pass, for packed batches.

    Its methods return None where it does not support the model as it is.
    """

    def hidden(self, ids: Tensor, segments: Tensor, places: Tensor | None) -> Tensor | None:
        """As `Bert.forward`."""

    def reduced(self, ids: Tensor, segments: Tensor, ends: Ends, *, firsts: bool) -> ReducedTokens | None:
        """As `Bert.reduced`."""


class Bert(nn.Module):
    """Token, segment and position embeddings, and blocks in which every token sees the whole text.

    `padding` is the id that stands for nothing; it stands at the end of a row only.
    """

    def __init__(self, config: BertModel, vocabulary: int, padding: int) -> None:
        super().__init__()
        self.padding = padding
        self.token_embedding = nn.Embedding(vocabulary, config.d_model)
        self.segment_embedding = nn.Embedding(config.segments, config.d_model)
        self.position_embedding = Learned(config.d_model, config.longest)
        self.norm = nn.LayerNorm(config.d_model, eps=config.epsilon)
        self.dropout = Dropout(config.dropout)
        self.blocks = EncoderStack(EncoderBlock(shape_of(config)) for _ in range(config.layers))
        self.pooler = nn.Linear(config.d_model, config.d_model)
        self.reduction: Merging | Pruning | None = None
        """What makes tokens fewer from block to block, where anything does; never where it is recorded."""
        self.accelerator: BertAccelerator | None = None
        """Computes the forward pass natively where it can; set by `regard.engine.attach`."""
        self.apply(start_weights)
        nn.init.trunc_normal_(self.position_embedding.table, std=STARTING_SPREAD)

    def forward(
        self, ids: Tensor, segments: Tensor, record: Recorder | None = None, *, places: Tensor | None = None
    ) -> Tensor:
        """ids and segments (texts, length) -> (texts, length, d_model); what stands at padding means nothing.

        With `places` (some,), counted through the batch, the vectors there: (some, d_model). Tokens that were
        merged have the vector of what they became.
        """
        if record is None and self.reduction is not None:
            ends = Ends.of(ids, self.padding)
            rows = self.reduced(ids, segments, ends, firsts=False).unmerged()
            hidden = rows.new_zeros(*ids.shape, rows.size(-1)).index_put((ends.real,), rows)
            return hidden if places is None else hidden.flatten(0, 1).index_select(0, places)
        if record is None and self.accelerator is not None:
            native = self.accelerator.hidden(ids, segments, places)
            if native is not None:
                return native
        x = self.embedded(ids, segments)
        hidden = self.blocks(x, mask=padding_mask(ids, self.padding), record=record and record.under("encoder"))
        return cast(Tensor, hidden if places is None else hidden.flatten(0, 1).index_select(0, places))

    def first(self, ids: Tensor, segments: Tensor) -> Tensor:
        """What stands at [CLS]: (texts, length) -> (texts, d_model)."""
        if self.reduction is None:
            return cast(Tensor, self(ids, segments, places=firsts(ids)))
        return self.reduced(ids, segments, Ends.of(ids, self.padding), firsts=True).x

    def reduced(self, ids: Tensor, segments: Tensor, ends: Ends, *, firsts: bool) -> ReducedTokens:
        """What is left of the tokens at the end; with `firsts` the vectors at [CLS] alone."""
        assert self.reduction is not None
        if self.accelerator is not None:
            left = self.accelerator.reduced(ids, segments, ends, firsts=firsts)
            if left is not None:
                return left
        x = self.embedded(ids[ends.real], segments[ends.real], ends.places)
        return reduced(self.blocks, x, ends, self.reduction, firsts=firsts)

    def faded(self, ids: Tensor, segments: Tensor) -> SoftPruned:
        """The texts side by side, tokens counted by how much of them pruning keeps while it is learned."""
        assert isinstance(self.reduction, Pruning)
        return self.reduction.fade(self.blocks, self.embedded(ids, segments), ids != self.padding)

    def embedded(self, ids: Tensor, segments: Tensor, places: Tensor | None = None) -> Tensor:
        """(..., length) ids -> (..., length, d_model); `places` says where tokens end to end stand."""
        x = self.token_embedding(ids) + self.segment_embedding(segments)
        position = self.position_embedding
        x = position.embed(x) if places is None else position.embed_at(x, places)
        return cast(Tensor, self.dropout(self.norm(x)))

    def pooled(self, first: Tensor) -> Tensor:
        """What [CLS] says of the whole text, from its vectors: (texts, d_model) -> (texts, d_model)."""
        return torch.tanh(self.pooler(first))


class BertReader(nn.Module):
    """A BERT, or a GPT with the same forward, that gives one vector for each text, pooled from its tokens'."""

    def __init__(self, bert: nn.Module, pooling: Pooling = "mean") -> None:
        super().__init__()
        self.bert = bert
        self.pooling: Pooling = pooling

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        """(texts, length) -> (texts, d_model)."""
        return pool(self.bert(ids, segments), ids.ne(cast(int, self.bert.padding)), self.pooling)


class BertPretrainer(nn.Module):
    """Two heads: which word stood here, and did the second sentence follow the first."""

    def __init__(self, bert: Bert, config: BertModel) -> None:
        super().__init__()
        self.bert = bert
        self.transform = nn.Linear(config.d_model, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = nn.LayerNorm(config.d_model, eps=config.epsilon)
        self.output_bias = nn.Parameter(torch.zeros(bert.token_embedding.num_embeddings))
        self.next_sentence = nn.Linear(config.d_model, 2)
        for module in (self.transform, self.next_sentence):
            start_weights(module)

    def forward(self, ids: Tensor, segments: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors (places, d_model) for `output` at places counted through the batch, and scores (texts, 2).

        Of the two scores the first is for a sentence that follows.
        """
        found = self.bert(ids, segments, places=torch.cat([firsts(ids), places]))
        first, asked = found.split([len(ids), len(places)])
        return self.rows(asked), self.next_sentence(self.bert.pooled(first))

    def rows(self, hidden: Tensor) -> Tensor:
        """Vectors for `output` from those of tokens: (..., d_model) -> (..., d_model)."""
        return cast(Tensor, self.norm(self.activation(self.transform(hidden))))

    @property
    def output(self) -> tuple[Tensor, Tensor]:
        """Weight (vocabulary, d_model), the table of the embeddings, and bias (vocabulary,)."""
        return self.bert.token_embedding.weight, self.output_bias


class BertClassifier(nn.Module):
    """One label for a text or a pair of texts, from what [CLS] says."""

    def __init__(self, bert: Bert, config: BertModel, labels: int) -> None:
        super().__init__()
        self.bert = bert
        self.dropout = Dropout(config.dropout)
        self.labels = nn.Linear(config.d_model, labels)
        start_weights(self.labels)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        """(texts, length) -> scores (texts, labels)."""
        return self.judged(self.bert.first(ids, segments))

    def judged(self, first: Tensor) -> Tensor:
        """Scores from what stands at [CLS]: (texts, d_model) -> (texts, labels)."""
        return cast(Tensor, self.labels(self.dropout(self.bert.pooled(first))))

    @property
    def learns_to_prune(self) -> bool:
        return isinstance(self.bert.reduction, Pruning) and self.bert.reduction.soft

    def faded(self, ids: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        """Scores while pruning is learned, and what it costs that too much is kept."""
        assert isinstance(self.bert.reduction, Pruning)
        faded = self.bert.faded(ids, segments)
        return self.judged(faded.x[:, 0]), self.bert.reduction.price(faded)


class BertTagger(nn.Module):
    """A tag for each token."""

    def __init__(self, bert: Bert, config: BertModel, tags: int) -> None:
        super().__init__()
        self.bert = bert
        self.dropout = Dropout(config.dropout)
        self.tags = nn.Linear(config.d_model, tags)
        start_weights(self.tags)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        """(texts, length) -> scores (texts, length, tags)."""
        return cast(Tensor, self.tags(self.dropout(self.bert(ids, segments))))


class BertAnswerer(nn.Module):
    """Where an answer begins and where it ends."""

    def __init__(self, bert: Bert, config: BertModel) -> None:
        super().__init__()
        self.bert = bert
        self.edges = nn.Linear(config.d_model, 2)
        start_weights(self.edges)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        """(texts, length) -> scores of beginning and end at each place (texts, 2, length); none at padding."""
        scores = self.edges(self.bert(ids, segments)).transpose(1, 2)
        lowest = torch.finfo(scores.dtype).min
        return cast(Tensor, scores.masked_fill((ids == self.bert.padding).unsqueeze(1), lowest))


def firsts(ids: Tensor) -> Tensor:
    """Where the texts begin, counted through the batch: (texts, length) -> (texts,)."""
    return torch.arange(len(ids), device=ids.device) * ids.size(1)


def pool(hidden: Tensor, nonpad: Tensor, pooling: Pooling) -> Tensor:
    """One vector a text: (texts, length, size), (texts, length) -> (texts, size)."""
    match pooling:
        case "mean":
            return mean_of(hidden, nonpad)
        case "cls":
            return hidden[:, 0]
        case "max":
            return hidden.masked_fill(~nonpad.unsqueeze(-1), -torch.inf).amax(1)


def mean_of(hidden: Tensor, real: Tensor) -> Tensor:
    """The mean over the real places: (texts, length, size), (texts, length) -> (texts, size)."""
    weight = real.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)


def shape_of(config: BertModel) -> BlockShape:
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
    )


def start_weights(module: nn.Module) -> None:
    """Matrices as BERT starts them: narrow, cut off at two spreads' distance; biases are 0."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=STARTING_SPREAD, a=-2 * STARTING_SPREAD, b=2 * STARTING_SPREAD)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
