"""Batches of images, mixed and changed by chance anew in each epoch."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard.config.data import ImageDataConfig
from regard.data.images import Images
from regard.data.stream import Cursor, per_epoch, stream


@dataclass(frozen=True)
class ImageBatch:
    """Images side by side: pixels from 0 to 1, and the number of each one's label."""

    pixels: Tensor  # (images, channels, height, width)
    labels: Tensor  # (images,)
    each: int
    """Tokens of an image."""
    num_targets: int
    """Images of the whole batch, also where this is one process's share of it."""
    sentences: tuple[int, ...]
    """Which images these are."""

    @property
    def tokens(self) -> int:
        return self.num_targets * self.each

    @property
    def rows(self) -> int:
        return len(self.pixels)

    def __str__(self) -> str:
        """Its size, for a sentence."""
        return f"{len(self.pixels)} images of {self.each} tokens"

    def to(self, device: torch.device) -> "ImageBatch":
        return self._with(self.pixels.to(device, non_blocking=True), self.labels.to(device, non_blocking=True))

    def pinned(self) -> "ImageBatch":
        """The same in memory that a GPU can fetch by itself."""
        return self._with(self.pixels.pin_memory(), self.labels.pin_memory())

    def stand_in(self) -> "ImageBatch":
        """One black image, for a process that has no row but must compute with the others."""
        return self._with(torch.zeros(1, *self.pixels.shape[1:]), torch.zeros(1, dtype=torch.int64))

    def _with(self, pixels: Tensor, labels: Tensor) -> "ImageBatch":
        return ImageBatch(pixels, labels, self.each, self.num_targets, self.sentences)


@dataclass(frozen=True)
class ImageBatches:
    """How images are cut into batches, mixed and changed by chance anew in each epoch."""

    images: Images
    labels: np.ndarray
    each: int
    """Tokens of an image."""
    count: int
    """Images a batch."""
    change: ImageDataConfig = field(default_factory=ImageDataConfig)
    seed: int = 1
    pool: int = 20_000
    share: tuple[int, int] = (0, 1)
    """Of every batch the rows of process `share[0]` of `share[1]`."""

    def stream(self, cursor: Cursor = Cursor()) -> Iterator[tuple[ImageBatch, Cursor]]:  # noqa: B008
        """Batches from the cursor on, without end, each with the cursor of the one after it."""
        return stream(self, cursor)

    def per_epoch(self) -> int:
        return per_epoch(self)

    def __len__(self) -> int:
        return len(self.labels)

    def parts(self) -> list[range]:
        return [range(len(self.labels))]

    def cut(self, members: np.ndarray, epoch: int, pool: int) -> list["_Make"]:
        firsts = range(0, len(members), self.count)
        return [
            _Make(self, members[first : first + self.count], (self.seed, epoch, pool, first, 5))
            for first in firsts
        ]


@dataclass(frozen=True)
class _Make:
    """A batch not yet laid out."""

    batches: ImageBatches
    members: np.ndarray
    seed: tuple[int, ...]

    def __call__(self, rank: int, ranks: int) -> ImageBatch:
        """Every row, or one process's share of them; there may be none for it."""
        mine = slice(rank, None, ranks)
        members = self.members[mine]
        images = self.batches.images
        shape = (images.channels, images.height, images.width)
        pixels = torch.zeros(0, *shape) if not len(members) else as_numbers(images.load(members))
        change = changes(self.batches.change, len(self.members), self.seed)
        if change is not None and len(members):
            pixels = drawn(pixels, change[mine])
        labels = torch.from_numpy(self.batches.labels[members])
        return ImageBatch(pixels, labels, self.batches.each, len(self.members), tuple(map(int, members)))


def as_numbers(pixels: np.ndarray) -> Tensor:
    """Bytes as numbers from 0 to 1."""
    return torch.from_numpy(pixels).to(torch.float32).div_(255)


def changes(data: ImageDataConfig, count: int, seed: tuple[int, ...]) -> Tensor | None:
    """Where each image is drawn from, as affine maps (images, 2, 3); None where nothing is to be changed."""
    if not (data.shift or data.rotate or data.crop or data.flip):
        return None
    rng = np.random.default_rng(seed)
    move = rng.uniform(-2 * data.shift, 2 * data.shift, (2, count))  # an image reaches from -1 to 1
    angle = np.radians(rng.uniform(-data.rotate, data.rotate, count))
    size = 1 - rng.uniform(-data.crop, data.crop, count)
    mirror = np.where(rng.random(count) < 0.5, -1.0, 1.0) if data.flip else np.ones(count)
    cos, sin = size * np.cos(angle), size * np.sin(angle)
    rows = np.stack([np.stack([cos * mirror, -sin, move[0]]), np.stack([sin * mirror, cos, move[1]])])
    return torch.from_numpy(rows.transpose(2, 0, 1)).to(torch.float32)


def drawn(pixels: Tensor, maps: Tensor) -> Tensor:
    """Images drawn anew from where their maps say; what lies outside of them is black."""
    grid = functional.affine_grid(maps, list(pixels.shape), align_corners=False)
    return functional.grid_sample(pixels, grid, align_corners=False)
