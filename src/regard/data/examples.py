"""Texts as token ids with their labels, and batches of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from regard.data.batch_order import Cursor, count_batches, group_by_tokens, shuffled_batches
from regard.nn import Packed

IGNORE_INDEX = -1
"""Label of a token or text that the loss ignores."""


@dataclass(frozen=True)
class Example:
    """A text, or a pair of texts, as ids including [CLS] and [SEP], with its labels."""

    number: int
    ids: np.ndarray
    second: int
    """Position of the first token of the second text; the length where there is none."""
    labels: tuple[int, ...] = ()
    """Labels of the whole text: a class; first and last token of an answer; whether the second text follows."""
    token_labels: np.ndarray | None = None
    """A label for each token, IGNORE_INDEX where it has none."""


@dataclass(frozen=True)
class TextBatch:
    """Texts as packed token ids."""

    ids: Packed
    segments: Tensor  # (tokens,): 0 for the first text and 1 for the second
    labels: Tensor  # (texts, labels per text)
    token_labels: Tensor  # (tokens,): the label of each token, IGNORE_INDEX where there is none
    tokens: int
    """Tokens in the whole batch, also where this is one process's shard of it."""
    num_targets: int
    """Number of labels over which the loss is summed: labelled tokens, or texts where no token has a label."""
    texts: int
    """Number of texts with a label in the whole batch."""
    sentences: tuple[int, ...]
    """Indices of the examples."""

    @property
    def rows(self) -> int:
        return self.ids.sequences

    def __str__(self) -> str:
        """The batch's size for messages."""
        return f"{self.rows} texts of {self.ids.max_length} tokens"

    def to(self, device: torch.device) -> "TextBatch":
        ids = self.ids.to(device, non_blocking=True)
        return self._with(ids, *(tensor.to(device, non_blocking=True) for tensor in self._tensors()))

    def pin_memory(self) -> "TextBatch":
        """The batch in page-locked memory, from which a GPU copies asynchronously."""
        return self._with(self.ids.pin_memory(), *(tensor.pin_memory() for tensor in self._tensors()))

    def placeholder(self) -> "TextBatch":
        """One text of one token, for a process with an empty shard that runs collective operations."""
        labels = torch.zeros((1, max(1, self.labels.size(1))), dtype=torch.int64)
        zero = torch.zeros(1, dtype=torch.int64)
        return self._with(Packed.from_rows([[1]]), zero, labels, zero)

    def _tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.segments, self.labels, self.token_labels

    def _with(self, ids: Packed, segments: Tensor, labels: Tensor, token_labels: Tensor) -> "TextBatch":
        return TextBatch(
            ids, segments, labels, token_labels, self.tokens, self.num_targets, self.texts, self.sentences
        )


class ExampleSource(Protocol):
    """Examples by index; random ones differ between epochs."""

    def __len__(self) -> int: ...

    def parts(self) -> list[range]:
        """Ranges of examples that are stored together."""

    def load(self, indices: np.ndarray, rng: np.random.Generator) -> list[Example]: ...


class FixedExamples:
    """Examples that are the same in every epoch."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    def parts(self) -> list[range]:
        return [range(len(self.examples))]

    def load(self, indices: np.ndarray, rng: np.random.Generator) -> list[Example]:
        return [self.examples[index] for index in indices]


@dataclass(frozen=True)
class TextBatches:
    """Shuffled batches of examples, by token budget or by number."""

    source: ExampleSource
    tokens: int = 4096
    sentences: int = 0
    seed: int = 1
    pool: int = 20_000
    shard: tuple[int, int] = (0, 1)
    """(rank, world size): which rows of each batch this process gets."""

    def stream(self, cursor: Cursor = Cursor()) -> Iterator[tuple[TextBatch, Cursor]]:  # noqa: B008
        """Endless batches from the cursor on, each with the cursor of the next."""
        return shuffled_batches(self, cursor)

    def batches_per_epoch(self) -> int:
        """Number of batches per epoch; an estimate for random examples."""
        return count_batches(self)

    def __len__(self) -> int:
        return len(self.source)

    def parts(self) -> list[range]:
        return self.source.parts()

    def batches_of_pool(self, indices: np.ndarray, epoch: int, pool: int) -> list["_LazyBatch"]:
        rng = np.random.default_rng((self.seed, epoch, pool, 4))
        loaded = self.source.load(indices, rng)
        # examples of equal length are grouped at random
        order = rng.permutation(len(loaded))
        return grouped([loaded[position] for position in order], self.tokens, self.sentences)


def all_batches(examples: Sequence[Example], tokens: int) -> Iterator[TextBatch]:
    """Every example once, shortest first."""
    return (load(0, 1) for load in grouped(examples, tokens))


def grouped(examples: Sequence[Example], tokens: int, sentences: int = 0) -> list["_LazyBatch"]:
    """Batches of examples that are neighbours in length."""
    in_order = sorted(examples, key=lambda example: len(example.ids))
    groups = group_by_tokens(in_order, [len(example.ids) for example in in_order], tokens, sentences)
    return [_LazyBatch(group) for group in groups]


@dataclass(frozen=True)
class _LazyBatch:
    """A batch that is packed when it is called."""

    examples: list[Example]

    def __call__(self, rank: int, world_size: int) -> TextBatch:
        """The rows of one process (of `world_size`); its shard may be empty."""
        rows_of_rank = self.examples[rank::world_size]
        ids = Packed.from_rows([example.ids for example in rows_of_rank])
        seconds = torch.tensor([example.second for example in rows_of_rank], dtype=torch.int64)
        token_labels = [
            np.full(len(example.ids), IGNORE_INDEX, np.int64)
            if example.token_labels is None
            else example.token_labels
            for example in rows_of_rank
        ]
        labels = np.array([example.labels for example in rows_of_rank], np.int64).reshape(len(rows_of_rank), -1)
        labelled_tokens = sum(
            int((example.token_labels != IGNORE_INDEX).sum())
            for example in self.examples
            if example.token_labels is not None
        )
        labelled_texts = sum(
            bool(example.labels) and example.labels[0] != IGNORE_INDEX for example in self.examples
        )
        has_token_labels = any(example.token_labels is not None for example in self.examples)
        return TextBatch(
            ids=ids,
            segments=(ids.positions >= seconds.repeat_interleave(ids.lengths)).long(),
            labels=torch.from_numpy(labels),
            token_labels=Packed.from_rows(token_labels).values,
            tokens=sum(len(example.ids) for example in self.examples),
            num_targets=max(1, labelled_tokens if has_token_labels else labelled_texts),
            texts=max(1, labelled_texts),
            sentences=tuple(example.number for example in rows_of_rank),
        )
