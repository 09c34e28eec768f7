"""Packed batches as the kernels take them: sequences one after another, without padding."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from regard.nn.masks import causal_mask, combine


@dataclass(frozen=True)
class SequenceOffsets:
    """Where sequences lie in a row of tokens, one after another.

    Args:
        lengths: (sequences,).
        width: Length of the padded batch, that of the longest sequence unless given.
    """

    lengths: Tensor
    width: int = 0

    @staticmethod
    def from_padded(ids: Tensor, padding: int) -> "SequenceOffsets":
        """Of ids (sequences, length) that are padded at the end."""
        return SequenceOffsets((ids != padding).sum(1), ids.size(1))

    @cached_property
    def offsets(self) -> Tensor:
        """Where each sequence begins, and where the last one ends (cu_seqlens): (sequences + 1,)."""
        return torch.nn.functional.pad(self.lengths.cumsum(0), (1, 0)).to(torch.int32)

    @cached_property
    def nonpad(self) -> Tensor:
        """Which places of the padded batch are tokens: (sequences, width)."""
        width = self.width or int(self.lengths.max())
        return torch.arange(width, device=self.lengths.device) < self.lengths.unsqueeze(1)

    @cached_property
    def positions(self) -> Tensor:
        """Position of each token in its sequence: (tokens,)."""
        return torch.arange(self.nonpad.size(1), device=self.lengths.device).expand_as(self.nonpad)[self.nonpad]

    @cached_property
    def firsts(self) -> Tensor:
        """Index of the first token of each sequence: (sequences,)."""
        return self.offsets[:-1].long()

    def padded(self, x: Tensor) -> Tensor:
        """(tokens, ...) -> (sequences, width, ...), filled up with zeros."""
        return x.new_zeros(*self.nonpad.shape, *x.shape[1:]).index_put((self.nonpad,), x)


@dataclass(frozen=True)
class PackedMask:
    """Mask of a packed batch: a token attends to the keys of its own sequence."""

    queries: SequenceOffsets
    keys: SequenceOffsets
    causal: bool = False

    def mask(self) -> Tensor:
        """The same as a boolean mask of the padded batch: (sequences, 1, query, key)."""
        mask = self.keys.nonpad.unsqueeze(1)
        order = causal_mask(self.queries.nonpad.size(1), device=mask.device) if self.causal else None
        combined = combine(mask, order)
        assert combined is not None
        return combined.unsqueeze(1)
