"""Packed (variable-length) batches: sequences concatenated without padding, and their lengths."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Packed:
    """Sequences of a batch, concatenated without padding.

    Raises:
        ValueError: The lengths do not add up to the number of tokens, or one is negative.
        TypeError: The lengths are not int64 numbers on the CPU.
    """

    values: Tensor
    """(tokens, ...): ids, labels or vectors."""
    lengths: Tensor
    """(sequences,), int64, on the CPU."""

    def __post_init__(self) -> None:
        lengths = self.lengths
        if lengths.dtype != torch.int64 or lengths.device.type != "cpu" or lengths.dim() != 1:
            raise TypeError(
                "lengths are (sequences,) int64 on the CPU, not "
                f"{tuple(lengths.shape)} {lengths.dtype} on {lengths.device}"
            )
        total = int(lengths.sum())
        if total != len(self.values) or (len(lengths) and int(lengths.min()) < 0):
            raise ValueError(f"the lengths add up to {total}, but there are {len(self.values)} tokens")

    @property
    def sequences(self) -> int:
        return len(self.lengths)

    @property
    def device(self) -> torch.device:
        return self.values.device

    @cached_property
    def max_length(self) -> int:
        """Tokens of the longest sequence."""
        return int(self.lengths.max()) if len(self.lengths) else 0

    @cached_property
    def offsets(self) -> Tensor:
        """Start of each sequence, and end of the last one (cu_seqlens): (sequences + 1,), int32."""
        offsets = torch.nn.functional.pad(self.lengths.cumsum(0), (1, 0)).to(torch.int32)
        return offsets.to(self.device, non_blocking=True)

    @cached_property
    def positions(self) -> Tensor:
        """Position of each token in its sequence: (tokens,)."""
        starts = (self.lengths.cumsum(0) - self.lengths).repeat_interleave(self.lengths)
        return (torch.arange(len(starts)) - starts).to(self.device, non_blocking=True)

    @cached_property
    def nonpad(self) -> Tensor:
        """Which positions of the padded batch are tokens: (sequences, max_length), boolean."""
        nonpad = torch.arange(self.max_length) < self.lengths.unsqueeze(1)
        return nonpad.to(self.device, non_blocking=True)

    @cached_property
    def padded_positions(self) -> Tensor:
        """Position of each token in the flattened padded batch: (tokens,)."""
        # From the lengths, on the CPU: computing it on a GPU would synchronize.
        starts = torch.arange(self.sequences) * self.max_length - (self.lengths.cumsum(0) - self.lengths)
        positions = starts.repeat_interleave(self.lengths)
        return (positions + torch.arange(len(positions))).to(self.device, non_blocking=True)

    def padded(self, fill: float) -> Tensor:
        """The padded batch (sequences, max_length, ...), with `fill` after the end of each sequence."""
        flat = self.values.new_full((self.sequences * self.max_length, *self.values.shape[1:]), fill)
        flat = flat.index_copy(0, self.padded_positions, self.values)
        return flat.view(self.sequences, self.max_length, *self.values.shape[1:])

    def repacked(self, x: Tensor) -> "Packed":
        """The tokens of a padded batch (sequences, max_length, ...): the inverse of `padded`."""
        return self.like(x.flatten(0, 1).index_select(0, self.padded_positions))

    def twice(self) -> "Packed":
        """The sequences repeated twice, as R-Drop needs them."""
        return Packed(torch.cat((self.values, self.values)), torch.cat((self.lengths, self.lengths)))

    def split(self) -> tuple[Tensor, ...]:
        """The values of each sequence."""
        return torch.split(self.values, self.lengths.tolist())

    def like(self, values: Tensor) -> "Packed":
        """Other values (tokens, ...) of the same sequences."""
        return Packed(values, self.lengths)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "Packed":
        """The values on a device; the lengths stay on the CPU."""
        values = self.values.to(device, non_blocking=non_blocking)
        return self if values is self.values else self.like(values)

    def pin_memory(self) -> "Packed":
        """The values in page-locked memory, for asynchronous copies to a GPU."""
        return self.like(self.values.pin_memory())

    @staticmethod
    def from_rows(rows: Sequence[Sequence[int] | np.ndarray]) -> "Packed":
        """Pack ids: one list or array for each sequence."""
        values = np.concatenate([np.empty(0, np.int64), *(np.asarray(row, np.int64) for row in rows)])
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        return Packed(torch.from_numpy(values), lengths)

    @staticmethod
    def from_padded(x: Tensor, nonpad: Tensor) -> "Packed":
        """Pack a padded batch.

        Args:
            x: (sequences, length, ...).
            nonpad: (sequences, length), True at tokens.

        Raises:
            ValueError: There is padding before a token of its sequence.
        """
        lengths = nonpad.sum(1).cpu()
        ends = nonpad.long().cummin(1).values.sum(1).cpu()
        if not torch.equal(lengths, ends):
            raise ValueError("padding is allowed at the end of a sequence only")
        return Packed(x[nonpad], lengths)
