"""Texts as ids with what is to be said about them, and batches of them by token budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from regard.data.stream import Cursor, by_budget, per_epoch, stream

NOTHING = -1
"""Where nothing is asked of a token or a text."""


@dataclass(frozen=True)
class Example:
    """A text, or a pair of texts, as ids from [CLS] to the last [SEP]."""

    number: int
    ids: np.ndarray
    second: int
    """Where the second text begins; the length where there is none."""
    gold: tuple[int, ...] = ()
    """What is said of the whole: a label; where an answer begins and ends; whether the second text follows."""
    marks: np.ndarray | None = None
    """What is said of each token, NOTHING where nothing is asked."""


@dataclass(frozen=True)
class TextBatch:
    """Texts side by side, padded at the end."""

    ids: Tensor  # (texts, length)
    segments: Tensor  # (texts, length): 0 for the first text and 1 for the second
    gold: Tensor  # (texts, decisions)
    marks: Tensor  # (texts, length)
    tokens: int
    """Tokens that are not padding, of the whole batch: also where this is one process's share of it."""
    golds: int
    """Decisions that the loss is a sum over: marked tokens, or texts where no token is marked."""
    texts: int
    """Texts of the whole batch that something is said of."""
    sentences: tuple[int, ...]
    """Which examples these are."""

    @property
    def rows(self) -> int:
        return len(self.ids)

    def __str__(self) -> str:
        """Its size, for a sentence."""
        return f"{len(self.ids)} texts of {self.ids.size(1)} tokens"

    def to(self, device: torch.device) -> "TextBatch":
        return self._with(*(each.to(device, non_blocking=True) for each in self._tensors()))

    def pinned(self) -> "TextBatch":
        """The same in memory that a GPU can fetch by itself."""
        return self._with(*(each.pin_memory() for each in self._tensors()))

    def stand_in(self) -> "TextBatch":
        """One text of one token, for a process that has no row but must compute with the others."""
        one = torch.ones((1, 1), dtype=torch.int64)
        return self._with(one, one * 0, torch.zeros((1, max(1, self.gold.size(1))), dtype=torch.int64), one * 0)

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.ids, self.segments, self.gold, self.marks

    def _with(self, ids: Tensor, segments: Tensor, gold: Tensor, marks: Tensor) -> "TextBatch":
        return TextBatch(ids, segments, gold, marks, self.tokens, self.golds, self.texts, self.sentences)


class Source(Protocol):
    """Examples by number; made anew in each epoch where chance is part of them."""

    def __len__(self) -> int: ...

    def parts(self) -> list[range]:
        """The numbers of the examples that lie together."""

    def load(self, members: np.ndarray, chance: np.random.Generator) -> list[Example]: ...


class Ready:
    """Examples that are always the same."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    def parts(self) -> list[range]:
        return [range(len(self.examples))]

    def load(self, members: np.ndarray, chance: np.random.Generator) -> list[Example]:
        return [self.examples[member] for member in members]


@dataclass(frozen=True)
class TextBatches:
    """How examples are cut: by token budget or by number, from pools sorted by length."""

    source: Source
    padding: int
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
        chance = np.random.default_rng((self.seed, epoch, pool, 4))
        found = self.source.load(members, chance)
        # Which of the examples of one length come together is a matter of chance.
        order = chance.permutation(len(found))
        return grouped([found[place] for place in order], self.padding, self.tokens, self.sentences)


def all_batches(examples: Sequence[Example], padding: int, tokens: int) -> Iterator[TextBatch]:
    """Every example once, shortest first."""
    return (make(0, 1) for make in grouped(examples, padding, tokens))


def grouped(examples: Sequence[Example], padding: int, tokens: int, sentences: int = 0) -> list["_Make"]:
    """Neighbours in length together."""
    in_order = sorted(examples, key=lambda each: len(each.ids))
    groups = by_budget(in_order, [len(each.ids) for each in in_order], tokens, sentences)
    return [_Make(group, padding) for group in groups]


@dataclass(frozen=True)
class _Make:
    """A batch not yet laid out."""

    examples: list[Example]
    padding: int

    def __call__(self, rank: int, ranks: int) -> TextBatch:
        """Every row, or one process's share of them; there may be none for it."""
        mine = self.examples[rank::ranks]
        shape = (len(mine), max((len(each.ids) for each in mine), default=1))
        ids, segments = np.full(shape, self.padding, np.int64), np.zeros(shape, np.int64)
        marks = np.full(shape, NOTHING, np.int64)
        for row, each in enumerate(mine):
            length = len(each.ids)
            ids[row, :length] = each.ids
            segments[row, each.second : length] = 1
            if each.marks is not None:
                marks[row, :length] = each.marks
        gold = np.array([each.gold for each in mine], np.int64).reshape(len(mine), -1)
        marked = sum(int((each.marks != NOTHING).sum()) for each in self.examples if each.marks is not None)
        said = sum(bool(each.gold) and each.gold[0] != NOTHING for each in self.examples)
        by_token = any(each.marks is not None for each in self.examples)
        return TextBatch(
            ids=torch.from_numpy(ids),
            segments=torch.from_numpy(segments),
            gold=torch.from_numpy(gold),
            marks=torch.from_numpy(marks),
            tokens=sum(len(each.ids) for each in self.examples),
            golds=max(1, marked if by_token else said),
            texts=max(1, said),
            sentences=tuple(each.number for each in mine),
        )
