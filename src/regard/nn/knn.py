"""Words from memory: what was written at those places of remembered sentences that are like the one at hand.

Nearest-neighbour machine translation (Khandelwal et al. 2021). It is kernel regression once more: the query is
what a model would make the next word of, keys are the same at every place of the remembered translations,
values the words that stood there. Nothing is trained.
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.recorder import Recorder
from regard.nn.scores import Gaussian
from regard.nn.seq2seq import Seq2SeqModel

AT_ONCE = 1 << 16
"""Keys that queries are compared with at a time, where PyTorch does it."""


class Datastore(nn.Module):
    """Places of remembered translations: keys (places, width) and the words (places,) that stood there.

    The nearest `count` have a say of `weight` in the next word; `sharpness` favours the nearer ones of them.
    """

    def __init__(self, keys: Tensor, words: Tensor, *, count: int, weight: float, sharpness: float) -> None:
        super().__init__()
        if not 1 <= count <= len(keys) or len(words) != len(keys):
            raise ValueError(
                f"{count} neighbours cannot be asked of {len(keys)} places with {len(words)} words"
            )
        self.keys: Tensor
        self.words: Tensor
        self.register_buffer("keys", keys)
        self.register_buffer("words", words.to(torch.int32))
        self.count, self.weight = count, weight
        self.score = Gaussian(sharpness)

    def mixed(self, query: Tensor, scores: Tensor) -> Tensor:
        """Log probabilities of the next word, from queries (rows, width) and a model's scores (rows, words)."""
        _, places = self.nearest(query, self.count)
        kernel = self.score.compare(query.unsqueeze(1), self.keys[places].to(query.dtype)).squeeze(1)
        remembered = torch.zeros_like(scores)
        remembered.scatter_add_(1, self.words[places].long(), kernel.softmax(-1))
        return ((1 - self.weight) * scores.softmax(-1) + self.weight * remembered).log()

    def nearest(self, query: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The nearest places to each query, nearest first: squared distances and places, (rows, count)."""
        query = query.contiguous()
        fits, places = self.by_blocks(query, count)
        return (query.square().sum(1, keepdim=True) - 2 * fits).clamp_min(0), places

    def by_blocks(self, query: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """How well each of the nearest fits, q.k - |k|^2 / 2, and which it is."""
        fits, places = query.new_empty(len(query), 0), self.words.new_empty(len(query), 0, dtype=torch.long)
        for first in range(0, len(self.keys), AT_ONCE):
            keys = self.keys[first : first + AT_ONCE].to(query.dtype)
            more = torch.addmm(-keys.square().sum(1) / 2, query, keys.T)
            best, which = more.topk(min(count, len(keys)))
            fits, places = torch.cat([fits, best], 1), torch.cat([places, which + first], 1)
            fits, kept = fits.topk(min(count, fits.size(1)))
            places = places.gather(1, kept)
        return fits, places


class KnnModel(nn.Module):
    """A model whose neighbours have a say in every word."""

    def __init__(self, model: Seq2SeqModel, neighbours: Datastore) -> None:
        super().__init__()
        width = model.output[0].size(1)
        if neighbours.keys.size(1) != width:
            raise ValueError(f"keys of {neighbours.keys.size(1)} numbers are none of a model with {width}")
        self.model, self.neighbours = model, neighbours

    def start(self, source: Tensor) -> Any:
        return self.model.start(source)

    def step(self, tokens: Tensor, state: Any, record: Recorder | None = None) -> tuple[Tensor, Any]:
        hidden, after = self.model.next_hidden(tokens, state, record)
        return self.neighbours.mixed(hidden, self.model.scores(hidden)), after
