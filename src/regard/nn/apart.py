"""Sentences laid end to end instead of side by side: no padding is computed, each sees its own keys only."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from regard.nn.masks import causal_mask, combine


@dataclass(frozen=True)
class Ends:
    """Where sentences lie in a row of tokens: `lengths` (sentences,), one after another.

    Side by side they take `width` places each, as many as the longest has unless given.
    """

    lengths: Tensor
    width: int = 0

    @staticmethod
    def of(ids: Tensor, padding: int) -> "Ends":
        """Of ids (sentences, length) that are padded at the end."""
        return Ends((ids != padding).sum(1), ids.size(1))

    @cached_property
    def start(self) -> Tensor:
        """Where each sentence begins, and where the last one ends: (sentences + 1,)."""
        return torch.nn.functional.pad(self.lengths.cumsum(0), (1, 0)).to(torch.int32)

    @cached_property
    def real(self) -> Tensor:
        """Which places are tokens when the sentences lie side by side: (sentences, width)."""
        width = self.width or int(self.lengths.max())
        return torch.arange(width, device=self.lengths.device) < self.lengths.unsqueeze(1)

    @cached_property
    def places(self) -> Tensor:
        """Where each token stands in its sentence: (tokens,)."""
        return torch.arange(self.real.size(1), device=self.lengths.device).expand_as(self.real)[self.real]

    def side_by_side(self, x: Tensor) -> Tensor:
        """(heads, tokens, size) -> (sentences, heads, width, size), padded with zeros."""
        apart = x.new_zeros(*self.real.shape, x.size(0), x.size(-1))
        return apart.index_put((self.real,), x.transpose(0, 1)).transpose(1, 2)

    def end_to_end(self, x: Tensor) -> Tensor:
        """(sentences, heads, width, size) -> (heads, tokens, size): undoes `side_by_side`."""
        return x.transpose(1, 2)[self.real].transpose(0, 1)


@dataclass(frozen=True)
class Apart:
    """A mask for sentences end to end: a token may look at the keys of its own sentence.

    It stands where a boolean mask stands; queries and keys are then (heads, tokens, size).
    """

    queries: Ends
    keys: Ends
    causal: bool = False

    def mask(self) -> Tensor:
        """The same as a boolean mask for sentences side by side: (sentences, 1, query, key)."""
        mask = self.keys.real.unsqueeze(1)
        order = causal_mask(self.queries.real.size(1), device=mask.device) if self.causal else None
        seen = combine(mask, order)
        assert seen is not None
        return seen.unsqueeze(1)


@dataclass
class AttentionStats:
    """What is to be known of an attention within sentences besides its result; filled in while it looks."""

    keys: Tensor | None = None
    """(tokens, size): the mean of the heads."""
    received: Tensor | None = None
    """(tokens,): the attention each key got from its sentence, mean over the heads; 1 is fair."""
