"""Batches of images, shuffled and augmented with other random numbers in each epoch."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard.config.data import ImageDataConfig
from regard.data.batch_order import Cursor, count_batches, shuffled_batches
from regard.data.images import Images


@dataclass(frozen=True)
class ImageBatch:
    """A batch of images with their labels."""

    pixels: Tensor  # (images, channels, height, width), from 0 to 1
    labels: Tensor  # (images,), label ids
    tokens_per_image: int
    """Tokens per image."""
    num_targets: int
    """Images in the whole batch, also where this is one process's shard of it."""
    sentences: tuple[int, ...]
    """Indices of the images."""

    @property
    def tokens(self) -> int:
        return self.num_targets * self.tokens_per_image

    @property
    def rows(self) -> int:
        return len(self.pixels)

    def __str__(self) -> str:
        """The batch's size for messages."""
        return f"{len(self.pixels)} images of {self.tokens_per_image} tokens"

    def to(self, device: torch.device) -> "ImageBatch":
        return self._with(self.pixels.to(device, non_blocking=True), self.labels.to(device, non_blocking=True))

    def pin_memory(self) -> "ImageBatch":
        """The batch in page-locked memory, from which a GPU copies asynchronously."""
        return self._with(self.pixels.pin_memory(), self.labels.pin_memory())

    def placeholder(self) -> "ImageBatch":
        """One image, for a process with an empty shard that runs collective operations."""
        return self._with(torch.zeros(1, *self.pixels.shape[1:]), torch.zeros(1, dtype=torch.int64))

    def _with(self, pixels: Tensor, labels: Tensor) -> "ImageBatch":
        return ImageBatch(pixels, labels, self.tokens_per_image, self.num_targets, self.sentences)


@dataclass(frozen=True)
class ImageBatches:
    """Shuffled batches of images with data augmentation."""

    images: Images
    labels: np.ndarray
    tokens_per_image: int
    """Tokens per image."""
    count: int
    """Images per batch."""
    augmentation: ImageDataConfig = field(default_factory=ImageDataConfig)
    seed: int = 1
    pool: int = 20_000
    shard: tuple[int, int] = (0, 1)
    """(rank, world size): which rows of each batch this process gets."""

    def stream(self, cursor: Cursor = Cursor()) -> Iterator[tuple[ImageBatch, Cursor]]:  # noqa: B008
        """Endless batches from the cursor on, each with the cursor of the next."""
        return shuffled_batches(self, cursor)

    def batches_per_epoch(self) -> int:
        return count_batches(self)

    def __len__(self) -> int:
        return len(self.labels)

    def parts(self) -> list[range]:
        return [range(len(self.labels))]

    def batches_of_pool(self, indices: np.ndarray, epoch: int, pool: int) -> list["_LazyBatch"]:
        firsts = range(0, len(indices), self.count)
        return [
            _LazyBatch(self, indices[first : first + self.count], (self.seed, epoch, pool, first, 5))
            for first in firsts
        ]


@dataclass(frozen=True)
class _LazyBatch:
    """A batch that is loaded when it is called."""

    batches: ImageBatches
    indices: np.ndarray
    seed: tuple[int, ...]

    def __call__(self, rank: int, world_size: int) -> ImageBatch:
        """The rows of one process (of `world_size`); its shard may be empty."""
        rows = slice(rank, None, world_size)
        indices = self.indices[rows]
        images = self.batches.images
        shape = (images.channels, images.height, images.width)
        pixels = torch.zeros(0, *shape) if not len(indices) else pixels_to_float(images.load(indices))
        augmentation = augmentation_maps(self.batches.augmentation, len(self.indices), self.seed)
        if augmentation is not None and len(indices):
            pixels = warp(pixels, augmentation[rows])
        labels = torch.from_numpy(self.batches.labels[indices])
        return ImageBatch(
            pixels, labels, self.batches.tokens_per_image, len(self.indices), tuple(map(int, indices))
        )


def pixels_to_float(pixels: np.ndarray) -> Tensor:
    """uint8 pixels as float32 from 0 to 1."""
    return torch.from_numpy(pixels).to(torch.float32).div_(255)


def augmentation_maps(data: ImageDataConfig, count: int, seed: tuple[int, ...]) -> Tensor | None:
    """Random affine maps from output to input coordinates (images, 2, 3), or None without augmentation."""
    if not (data.shift or data.rotate or data.crop or data.flip):
        return None
    rng = np.random.default_rng(seed)
    move = rng.uniform(-2 * data.shift, 2 * data.shift, (2, count))  # image coordinates are from -1 to 1
    angle = np.radians(rng.uniform(-data.rotate, data.rotate, count))
    size = 1 - rng.uniform(-data.crop, data.crop, count)
    mirror = np.where(rng.random(count) < 0.5, -1.0, 1.0) if data.flip else np.ones(count)
    cos, sin = size * np.cos(angle), size * np.sin(angle)
    rows = np.stack([np.stack([cos * mirror, -sin, move[0]]), np.stack([sin * mirror, cos, move[1]])])
    return torch.from_numpy(rows.transpose(2, 0, 1)).to(torch.float32)


def warp(pixels: Tensor, maps: Tensor) -> Tensor:
    """Images resampled through affine maps; pixels from outside are black."""
    grid = functional.affine_grid(maps, list(pixels.shape), align_corners=False)
    return functional.grid_sample(pixels, grid, align_corners=False)
