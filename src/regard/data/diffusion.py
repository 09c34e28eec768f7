"""Batches of pictures with prompts: what is said of one is drawn anew in each epoch, or nothing is said."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.images import Images
from regard.data.stream import Cursor, per_epoch, stream
from regard.nn import Packed

Ids = Sequence[Sequence[int]]
"""Prompts as ids."""


@dataclass(frozen=True)
class PaintBatch:
    """Pictures side by side, and a prompt for each, padded at the end."""

    pictures: Tensor  # (pictures, 1, height, width), black is -1 and white 1
    prompts: Tensor  # (pictures, words)
    num_targets: int
    """Pictures of the whole batch, also where this is one process's share of it."""
    sentences: tuple[int, ...]
    """Which pictures these are."""

    @property
    def tokens(self) -> int:
        """Pixels of the whole batch."""
        return self.num_targets * math.prod(self.pictures.shape[1:])

    @property
    def rows(self) -> int:
        return len(self.pictures)

    def __str__(self) -> str:
        """Its size, for a sentence."""
        height, width = self.pictures.shape[-2:]
        return f"{len(self.pictures)} pictures of {height} x {width} pixels"

    def to(self, device: torch.device) -> "PaintBatch":
        return self._with(
            self.pictures.to(device, non_blocking=True), self.prompts.to(device, non_blocking=True)
        )

    def pinned(self) -> "PaintBatch":
        """The same in memory that a GPU can fetch by itself."""
        return self._with(self.pictures.pin_memory(), self.prompts.pin_memory())

    def stand_in(self) -> "PaintBatch":
        """One grey picture, for a process that has no row but must compute with the others."""
        return self._with(torch.zeros(1, *self.pictures.shape[1:]), torch.ones(1, 1, dtype=torch.int64))

    def _with(self, pictures: Tensor, prompts: Tensor) -> "PaintBatch":
        return PaintBatch(pictures, prompts, self.num_targets, self.sentences)


@dataclass(frozen=True)
class PaintBatches:
    """How pictures are cut into batches, mixed anew in each epoch."""

    images: Images
    labels: Sequence[str]
    """Of each picture."""
    prompts: dict[str, Ids]
    """What may be said of each label."""
    nothing: Sequence[int]
    """The prompt that says nothing."""
    padding: int
    count: int
    """Pictures a batch."""
    silent: float = 0.0
    """Share of the pictures of which nothing is said."""
    seed: int = 1
    pool: int = 20_000
    share: tuple[int, int] = (0, 1)
    """Of every batch the rows of process `share[0]` of `share[1]`."""

    def stream(self, cursor: Cursor = Cursor()) -> Iterator[tuple[PaintBatch, Cursor]]:  # noqa: B008
        """Batches from the cursor on, without end, each with the cursor of the one after it."""
        return stream(self, cursor)

    def per_epoch(self) -> int:
        return per_epoch(self)

    def once(self) -> Iterator[PaintBatch]:
        """Every picture once, in order: for measuring."""
        return (make(0, 1) for make in self.cut(np.arange(len(self)), 0, 0))

    def __len__(self) -> int:
        return len(self.labels)

    def parts(self) -> list[range]:
        return [range(len(self))]

    def cut(self, members: np.ndarray, epoch: int, pool: int) -> list["_Make"]:
        firsts = range(0, len(members), self.count)
        return [
            _Make(self, members[first : first + self.count], (self.seed, epoch, pool, first, 6))
            for first in firsts
        ]


@dataclass(frozen=True)
class _Make:
    """A batch not yet laid out."""

    batches: PaintBatches
    members: np.ndarray
    seed: tuple[int, ...]

    def __call__(self, rank: int, ranks: int) -> PaintBatch:
        """Every row, or one process's share of them; there may be none for it."""
        rng = np.random.default_rng(self.seed)
        ids = [self.said(int(member), rng) for member in self.members][rank::ranks]
        mine = self.members[rank::ranks]
        pixels = torch.from_numpy(self.batches.images.load(mine)).float().div_(127.5).sub_(1)
        return PaintBatch(
            pixels,
            Packed.from_rows(ids).padded(self.batches.padding),
            len(self.members),
            tuple(int(each) for each in mine),
        )

    def said(self, member: int, rng: np.random.Generator) -> Sequence[int]:
        """One of the prompts of a picture, or nothing."""
        choices = self.batches.prompts[self.batches.labels[member]]
        chosen = choices[int(rng.integers(len(choices)))]
        return self.batches.nothing if rng.random() < self.batches.silent else chosen
