"""kNN machine translation (Khandelwal et al. 2021): a datastore of translations interpolated with a model.

It is kernel regression: the query is the hidden state from which a model predicts the next token, the keys are
the hidden states at the positions of known translations, and the values are their tokens. Nothing is trained.
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.recorder import Recorder
from regard.nn.scores import Gaussian
from regard.nn.seq2seq import Seq2SeqModel

BLOCK = 1 << 16
"""Number of keys that queries are compared with at a time."""


class Datastore(nn.Module):
    """Hidden states of known translations and the tokens that they predict.

    Args:
        keys: (entries, width), hidden states.
        tokens: (entries,), the token predicted from each.
        count: Number of neighbours of a query.
        weight: Weight of the neighbours' distribution of the next token; the model's distribution has 1 -
            weight.
        sharpness: Sharpness of the Gaussian kernel over the distances.

    Raises:
        ValueError: There are fewer than `count` entries, or not one token for each key.
    """

    def __init__(self, keys: Tensor, tokens: Tensor, *, count: int, weight: float, sharpness: float) -> None:
        super().__init__()
        if not 1 <= count <= len(keys) or len(tokens) != len(keys):
            raise ValueError(
                f"a datastore of {len(keys)} keys and {len(tokens)} tokens cannot return {count} neighbours"
            )
        self.keys: Tensor
        self.tokens: Tensor
        self.register_buffer("keys", keys)
        self.register_buffer("tokens", tokens.to(torch.int32))
        self.count, self.weight = count, weight
        self.score = Gaussian(sharpness)

    def interpolate(self, query: Tensor, scores: Tensor) -> Tensor:
        """Log probabilities of the next token, the model's interpolated with the neighbours'.

        Args:
            query: (rows, width), hidden states.
            scores: (rows, vocabulary), the model's logits.

        Returns:
            (rows, vocabulary).
        """
        _, entries = self.nearest(query, self.count)
        kernel = self.score.compare(query.unsqueeze(1), self.keys[entries].to(query.dtype)).squeeze(1)
        neighbours = torch.zeros_like(scores)
        neighbours.scatter_add_(1, self.tokens[entries].long(), kernel.softmax(-1))
        return ((1 - self.weight) * scores.softmax(-1) + self.weight * neighbours).log()

    def nearest(self, query: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Squared distances and indices (rows, count) of the entries nearest to queries (rows, width)."""
        query = query.contiguous()
        proximities, entries = self.top_proximities(query, count)
        return (query.square().sum(1, keepdim=True) - 2 * proximities).clamp_min(0), entries

    def top_proximities(self, query: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The largest q.k - |k|^2 / 2, those of the nearest entries, and their indices: (rows, count)."""
        proximities = query.new_empty(len(query), 0)
        entries = self.tokens.new_empty(len(query), 0, dtype=torch.long)
        for first in range(0, len(self.keys), BLOCK):
            keys = self.keys[first : first + BLOCK].to(query.dtype)
            block_proximities = torch.addmm(-keys.square().sum(1) / 2, query, keys.T)
            best, index = block_proximities.topk(min(count, len(keys)))
            proximities, entries = torch.cat([proximities, best], 1), torch.cat([entries, index + first], 1)
            proximities, kept = proximities.topk(min(count, proximities.size(1)))
            entries = entries.gather(1, kept)
        return proximities, entries


class KnnModel(nn.Module):
    """A sequence-to-sequence model whose next-token distribution is interpolated with that of a datastore.

    Raises:
        ValueError: The size of the keys is not that of the model's hidden states.
    """

    def __init__(self, model: Seq2SeqModel, datastore: Datastore) -> None:
        super().__init__()
        width = model.output[0].size(1)
        if datastore.keys.size(1) != width:
            raise ValueError(
                f"the datastore's keys have {datastore.keys.size(1)} components, hidden states have {width}"
            )
        self.model, self.datastore = model, datastore

    def start(self, source: Tensor) -> Any:
        return self.model.start(source)

    def step(self, tokens: Tensor, state: Any, record: Recorder | None = None) -> tuple[Tensor, Any]:
        hidden, next_state = self.model.next_hidden(tokens, state, record)
        return self.datastore.interpolate(hidden, self.model.scores(hidden)), next_state
