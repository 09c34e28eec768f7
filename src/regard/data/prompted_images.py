"""Batches of images with prompts, drawn at random in each epoch, and the prompts for a label."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batch_order import Cursor, count_batches, shuffled_batches
from regard.data.images import Images
from regard.nn import Packed

NUMBERS = {
    "0": ("zero", "Null"),
    "1": ("one", "Eins"),
    "2": ("two", "Zwei"),
    "3": ("three", "Drei"),
    "4": ("four", "Vier"),
    "5": ("five", "Fünf"),
    "6": ("six", "Sechs"),
    "7": ("seven", "Sieben"),
    "8": ("eight", "Acht"),
    "9": ("nine", "Neun"),
}
"""English and German number words of the digits."""

ENGLISH = ("{}", "{a} {}", "the {}", "the digit {}", "the number {}", "a handwritten {}", "a picture of {a} {}")
GERMAN = (
    "{}",
    "eine {}",
    "die {}",
    "die Ziffer {}",
    "die Zahl {}",
    "eine handgeschriebene {}",
    "ein Bild der {}",
)

Ids = Sequence[Sequence[int]]
"""Prompts as token ids."""


@dataclass(frozen=True)
class PromptedImageBatch:
    """A batch of images with one padded prompt each."""

    images: Tensor  # (images, 1, height, width), from -1 (black) to 1 (white)
    prompts: Tensor  # (images, words)
    num_targets: int
    """Images in the whole batch, also where this is one process's shard of it."""
    sentences: tuple[int, ...]
    """Indices of the images."""

    @property
    def tokens(self) -> int:
        """Pixels in the whole batch."""
        return self.num_targets * math.prod(self.images.shape[1:])

    @property
    def rows(self) -> int:
        return len(self.images)

    def __str__(self) -> str:
        """The batch's size for messages."""
        height, width = self.images.shape[-2:]
        return f"{len(self.images)} images of {height} x {width} pixels"

    def to(self, device: torch.device) -> "PromptedImageBatch":
        return self._with(self.images.to(device, non_blocking=True), self.prompts.to(device, non_blocking=True))

    def pin_memory(self) -> "PromptedImageBatch":
        """The batch in page-locked memory, from which a GPU copies asynchronously."""
        return self._with(self.images.pin_memory(), self.prompts.pin_memory())

    def placeholder(self) -> "PromptedImageBatch":
        """One image, for a process with an empty shard that runs collective operations."""
        return self._with(torch.zeros(1, *self.images.shape[1:]), torch.ones(1, 1, dtype=torch.int64))

    def _with(self, images: Tensor, prompts: Tensor) -> "PromptedImageBatch":
        return PromptedImageBatch(images, prompts, self.num_targets, self.sentences)


@dataclass(frozen=True)
class PromptedImageBatches:
    """Shuffled batches of images, each with a random prompt for its label."""

    images: Images
    labels: Sequence[str]
    """The label of each image."""
    prompts: dict[str, Ids]
    """The prompts for each label."""
    empty_prompt: Sequence[int]
    """The empty prompt, for classifier-free guidance."""
    padding: int
    count: int
    """Images per batch."""
    prompt_dropout: float = 0.0
    """Probability of the empty prompt (Ho and Salimans 2022)."""
    seed: int = 1
    pool: int = 20_000
    shard: tuple[int, int] = (0, 1)
    """(rank, world size): which rows of each batch this process gets."""

    def stream(self, cursor: Cursor = Cursor()) -> Iterator[tuple[PromptedImageBatch, Cursor]]:  # noqa: B008
        """Endless batches from the cursor on, each with the cursor of the next."""
        return shuffled_batches(self, cursor)

    def batches_per_epoch(self) -> int:
        return count_batches(self)

    def once(self) -> Iterator[PromptedImageBatch]:
        """Every image once, in order, for evaluation."""
        return (make(0, 1) for make in self.batches_of_pool(np.arange(len(self)), 0, 0))

    def __len__(self) -> int:
        return len(self.labels)

    def parts(self) -> list[range]:
        return [range(len(self))]

    def batches_of_pool(self, pool_indices: np.ndarray, epoch: int, pool: int) -> list["_LazyBatch"]:
        firsts = range(0, len(pool_indices), self.count)
        return [
            _LazyBatch(self, pool_indices[first : first + self.count], (self.seed, epoch, pool, first, 6))
            for first in firsts
        ]


@dataclass(frozen=True)
class _LazyBatch:
    """A batch that is loaded when it is called."""

    batches: PromptedImageBatches
    pool_indices: np.ndarray
    seed: tuple[int, ...]

    def __call__(self, rank: int, world_size: int) -> PromptedImageBatch:
        """The rows of one process (of `world_size`); its shard may be empty."""
        rng = np.random.default_rng(self.seed)
        ids = [self.sample_prompt(int(index), rng) for index in self.pool_indices][rank::world_size]
        indices = self.pool_indices[rank::world_size]
        pixels = torch.from_numpy(self.batches.images.load(indices)).float().div_(127.5).sub_(1)
        return PromptedImageBatch(
            pixels,
            Packed.from_rows(ids).padded(self.batches.padding),
            len(self.pool_indices),
            tuple(int(index) for index in indices),
        )

    def sample_prompt(self, index: int, rng: np.random.Generator) -> Sequence[int]:
        """A random prompt for an image's label, or the empty prompt."""
        choices = self.batches.prompts[self.batches.labels[index]]
        chosen = choices[int(rng.integers(len(choices)))]
        return self.batches.empty_prompt if rng.random() < self.batches.prompt_dropout else chosen


def prompts_for(label: str) -> list[str]:
    """All prompts for a label: digits as figures and as words in both languages, other labels by name."""
    english, german = NUMBERS.get(label, ("", ""))
    names = [label_words(label), english]
    prompts = [
        template.format(name, a=indefinite_article(name)) for name in names if name for template in ENGLISH
    ]
    if german:
        prompts += [template.format(name) for name in (label, german) for template in GERMAN]
    return list(dict.fromkeys(prompts))


def usual_prompt(label: str) -> str:
    """The default prompt for a label: `a seven`."""
    english, _ = NUMBERS.get(label, (label, ""))
    name = label_words(english)
    return f"{indefinite_article(name)} {name}"


def label_words(label: str) -> str:
    """A label as words, without underscores and hyphens."""
    return label.replace("_", " ").replace("-", " ")


def indefinite_article(name: str) -> str:
    return "an" if name[:1].lower() in "aeio8" and name != "one" else "a"


def vocabulary_texts(labels: Iterable[str]) -> Sequence[str]:
    """All prompts for these labels, from which the vocabulary is built."""
    return [prompt for label in labels for prompt in prompts_for(label)]
