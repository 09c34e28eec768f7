"""kNN machine translation (Khandelwal et al. 2021): a datastore of translations interpolated with a model.

It is kernel regression: the query is the hidden state from which a model predicts the next token, keys are the
hidden states at the positions of known translations, values the tokens that stand there. Nothing is trained.
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.recorder import Recorder
from regard.nn.scores import Gaussian
from regard.nn.seq2seq import Seq2SeqModel

BLOCK = 1 << 16
"""Keys that queries are compared with at a time."""


class Datastore(nn.Module):
    """Hidden states of known translations and the tokens that they predict.

    Args:
        keys: (entries, width), hidden states.
        tokens: (entries,), the token at each.
        count: Neighbours of a query.
        weight: Weight of the neighbours' distribution of the next token; the model's has the rest.
        sharpness: Of the Gaussian kernel over the distances.

    Raises:
        ValueError: There are fewer than `count` entries, or not one token for each key.
    """

    def __init__(self, keys: Tensor, tokens: Tensor, *, count: int, weight: float, sharpness: float) -> None:
        super().__init__()
        if not 1 <= count <= len(keys) or len(tokens) != len(keys):
            raise ValueError(
                f"a datastore of {len(keys)} keys and {len(tokens)} tokens cannot give {count} neighbours"
            )
        self.keys: Tensor
        self.tokens: Tensor
        self.register_buffer("keys", keys)
        self.register_buffer("tokens", tokens.to(torch.int32))
        self.count, self.weight = count, weight
        self.score = Gaussian(sharpness)

    def interpolate(self, query: Tensor, scores: Tensor) -> Tensor:
        """Log probabilities of the next token, from queries (rows, width) and scores (rows, vocabulary)."""
        _, entries = self.nearest(query, self.count)
        kernel = self.score.compare(query.unsqueeze(1), self.keys[entries].to(query.dtype)).squeeze(1)
        neighbours = torch.zeros_like(scores)
        neighbours.scatter_add_(1, self.tokens[entries].long(), kernel.softmax(-1))
        return ((1 - self.weight) * scores.softmax(-1) + self.weight * neighbours).log()

    def nearest(self, query: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Squared distances and indices (rows, count) of the entries nearest to queries (rows, width)."""
        query = query.contiguous()
        fits, entries = self.by_blocks(query, count)
        return (query.square().sum(1, keepdim=True) - 2 * fits).clamp_min(0), entries

    def by_blocks(self, query: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """q.k - |k|^2 / 2, which is largest for the nearest entries, and their indices: (rows, count)."""
        fits, entries = query.new_empty(len(query), 0), self.tokens.new_empty(len(query), 0, dtype=torch.long)
        for first in range(0, len(self.keys), BLOCK):
            keys = self.keys[first : first + BLOCK].to(query.dtype)
            more = torch.addmm(-keys.square().sum(1) / 2, query, keys.T)
            best, which = more.topk(min(count, len(keys)))
            fits, entries = torch.cat([fits, best], 1), torch.cat([entries, which + first], 1)
            fits, kept = fits.topk(min(count, fits.size(1)))
            entries = entries.gather(1, kept)
        return fits, entries


class KnnModel(nn.Module):
    """A model whose scores of the next token are interpolated with a datastore's.

    Raises:
        ValueError: The keys have another size than the model's hidden states.
    """

    def __init__(self, model: Seq2SeqModel, datastore: Datastore) -> None:
        super().__init__()
        width = model.output[0].size(1)
        if datastore.keys.size(1) != width:
            raise ValueError(f"keys of {datastore.keys.size(1)} numbers are none of a model with {width}")
        self.model, self.datastore = model, datastore

    def start(self, source: Tensor) -> Any:
        return self.model.start(source)

    def step(self, tokens: Tensor, state: Any, record: Recorder | None = None) -> tuple[Tensor, Any]:
        hidden, after = self.model.next_hidden(tokens, state, record)
        return self.datastore.interpolate(hidden, self.model.scores(hidden)), after
