"""Texts as ids with what is to be said about them, and batches of them by token budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from regard.data.stream import Cursor, by_budget, per_epoch, stream
from regard.nn import Packed

NOTHING = -1
"""Where nothing is asked of a token or a text."""


@dataclass(frozen=True)
class Example:
    """A text, or a pair of texts, as ids from [CLS] to the last [SEP]."""

    number: int
    ids: np.ndarray
    second: int
    """Where the second text begins; the length where there is none."""
    labels: tuple[int, ...] = ()
    """What is said of the whole: a label; where an answer begins and ends; whether the second text follows."""
    marks: np.ndarray | None = None
    """What is said of each token, NOTHING where nothing is asked."""


@dataclass(frozen=True)
class TextBatch:
    """Texts as packed token ids."""

    ids: Packed
    segments: Tensor  # (tokens,): 0 for the first text and 1 for the second
    labels: Tensor  # (texts, labels of a text)
    marks: Tensor  # (tokens,): the label of each token, NOTHING where there is none
    tokens: int
    """Tokens of the whole batch, also where this is one process's share of it."""
    num_targets: int
    """Labels that the loss is a sum over: marked tokens, or texts where no token is marked."""
    texts: int
    """Texts of the whole batch that something is said of."""
    sentences: tuple[int, ...]
    """Which examples these are."""

    @property
    def rows(self) -> int:
        return self.ids.sequences

    def __str__(self) -> str:
        """Its size, for an error message."""
        return f"{self.rows} texts of {self.ids.max_length} tokens"

    def to(self, device: torch.device) -> "TextBatch":
        ids = self.ids.to(device, non_blocking=True)
        return self._with(ids, *(each.to(device, non_blocking=True) for each in self._tensors()))

    def pinned(self) -> "TextBatch":
        """The same in page-locked memory, from which a GPU copies while it computes."""
        return self._with(self.ids.pin_memory(), *(each.pin_memory() for each in self._tensors()))

    def stand_in(self) -> "TextBatch":
        """One text of one token, for a process that has no row but must compute with the others."""
        labels = torch.zeros((1, max(1, self.labels.size(1))), dtype=torch.int64)
        zero = torch.zeros(1, dtype=torch.int64)
        return self._with(Packed.from_rows([[1]]), zero, labels, zero)

    def _tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.segments, self.labels, self.marks

    def _with(self, ids: Packed, segments: Tensor, labels: Tensor, marks: Tensor) -> "TextBatch":
        return TextBatch(
            ids, segments, labels, marks, self.tokens, self.num_targets, self.texts, self.sentences
        )


class Source(Protocol):
    """Examples by number; made anew in each epoch where chance is part of them."""

    def __len__(self) -> int: ...

    def parts(self) -> list[range]:
        """The numbers of the examples that lie together."""

    def load(self, members: np.ndarray, rng: np.random.Generator) -> list[Example]: ...


class Ready:
    """Examples that are always the same."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    def parts(self) -> list[range]:
        return [range(len(self.examples))]

    def load(self, members: np.ndarray, rng: np.random.Generator) -> list[Example]:
        return [self.examples[member] for member in members]


@dataclass(frozen=True)
class TextBatches:
    """How examples are cut: by token budget or by number, from pools sorted by length."""

    source: Source
    tokens: int = 4096
    sentences: int = 0
    seed: int = 1
    pool: int = 20_000
    share: tuple[int, int] = (0, 1)
    """Of every batch the rows of process `share[0]` of `share[1]`."""

    def stream(self, cursor: Cursor = Cursor()) -> Iterator[tuple[TextBatch, Cursor]]:  # noqa: B008
        """Batches from the cursor on, without end, each with the cursor of the one after it."""
        return stream(self, cursor)

    def per_epoch(self) -> int:
        """How many batches an epoch has; where chance makes the examples, about how many."""
        return per_epoch(self)

    def __len__(self) -> int:
        return len(self.source)

    def parts(self) -> list[range]:
        return self.source.parts()

    def cut(self, members: np.ndarray, epoch: int, pool: int) -> list["_Make"]:
        rng = np.random.default_rng((self.seed, epoch, pool, 4))
        found = self.source.load(members, rng)
        # Which of the examples of one length come together is a matter of chance.
        order = rng.permutation(len(found))
        return grouped([found[place] for place in order], self.tokens, self.sentences)


def all_batches(examples: Sequence[Example], tokens: int) -> Iterator[TextBatch]:
    """Every example once, shortest first."""
    return (make(0, 1) for make in grouped(examples, tokens))


def grouped(examples: Sequence[Example], tokens: int, sentences: int = 0) -> list["_Make"]:
    """Neighbours in length together."""
    in_order = sorted(examples, key=lambda each: len(each.ids))
    groups = by_budget(in_order, [len(each.ids) for each in in_order], tokens, sentences)
    return [_Make(group) for group in groups]


@dataclass(frozen=True)
class _Make:
    """A batch not yet laid out."""

    examples: list[Example]

    def __call__(self, rank: int, ranks: int) -> TextBatch:
        """Every row, or one process's share of them; there may be none for it."""
        mine = self.examples[rank::ranks]
        ids = Packed.from_rows([each.ids for each in mine])
        seconds = torch.tensor([each.second for each in mine], dtype=torch.int64)
        marks = [
            np.full(len(each.ids), NOTHING, np.int64) if each.marks is None else each.marks for each in mine
        ]
        labels = np.array([each.labels for each in mine], np.int64).reshape(len(mine), -1)
        marked = sum(int((each.marks != NOTHING).sum()) for each in self.examples if each.marks is not None)
        said = sum(bool(each.labels) and each.labels[0] != NOTHING for each in self.examples)
        by_token = any(each.marks is not None for each in self.examples)
        return TextBatch(
            ids=ids,
            segments=(ids.positions >= seconds.repeat_interleave(ids.lengths)).long(),
            labels=torch.from_numpy(labels),
            marks=Packed.from_rows(marks).values,
            tokens=sum(len(each.ids) for each in self.examples),
            num_targets=max(1, marked if by_token else said),
            texts=max(1, said),
            sentences=tuple(each.number for each in mine),
        )
