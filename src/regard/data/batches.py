"""Batches of similar length, in an order that depends on (seed, epoch) alone and can be continued anywhere."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from regard.data.store import Side, TokenStore
from regard.data.stream import Cursor, by_budget, per_epoch, stream
from regard.nn import Packed
from regard.tokenization import Tokenizer


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as packed token ids."""

    source: Packed
    target: Packed
    """The target shifted right: begins with `<s>`."""
    labels: Packed
    """The target to predict: ends with `</s>`; as many tokens in each sentence as `target`."""
    tokens: int
    """Target tokens of the whole batch, also where this is one process's share of it."""
    sentences: tuple[int, ...]
    """Which pairs of the store these are."""

    def __post_init__(self) -> None:
        lengths = [each.lengths for each in (self.source, self.target, self.labels)]
        if len(lengths[0]) != len(lengths[1]) or not torch.equal(lengths[1], lengths[2]):
            raise ValueError("each source sentence has a target, and each target token a label")

    @property
    def num_targets(self) -> int:
        """Labels that the loss is a sum over: one for each target token."""
        return self.tokens

    @property
    def rows(self) -> int:
        return self.source.sequences

    def __str__(self) -> str:
        """Its size, for an error message."""
        source, target = self.source.max_length, self.target.max_length
        return f"{self.rows} sentences of {source} source and {target} target tokens"

    def to(self, device: torch.device) -> "Batch":
        return self._with(*(each.to(device, non_blocking=True) for each in self._packed()))

    def stand_in(self) -> "Batch":
        """One pair of nothing but an end, for a process that has no row but must compute with the others."""
        end = Packed.from_rows([[Tokenizer.end]])
        return Batch(end, end, end, self.tokens, ())

    def pinned(self) -> "Batch":
        """The same in page-locked memory, from which a GPU copies while it computes."""
        return self._with(*(each.pin_memory() for each in self._packed()))

    def _packed(self) -> tuple[Packed, Packed, Packed]:
        return self.source, self.target, self.labels

    def _with(self, source: Packed, target: Packed, labels: Packed) -> "Batch":
        return Batch(source, target, labels, self.tokens, self.sentences)


Resample = Callable[[list[str], int], list[list[int]]]
"""Texts and a seed to freshly sampled ids (BPE-dropout)."""


@dataclass(frozen=True)
class Batches:
    """How a store is cut: by token budget or by sentences, from pools sorted by length."""

    store: TokenStore
    tokens: int = 4096
    sentences: int = 0
    seed: int = 1
    pool: int = 20_000
    max_length: int = 256
    """Sentences with more tokens are cut: the model has no more places."""
    resample: tuple[Resample, Resample] | None = None
    share: tuple[int, int] = (0, 1)
    """Of every batch the rows of process `share[0]` of `share[1]`."""

    def stream(self, cursor: Cursor = Cursor()) -> Iterator[tuple[Batch, Cursor]]:  # noqa: B008
        """Batches from the cursor on, without end, each with the cursor of the one after it."""
        return stream(self, cursor)

    def per_epoch(self) -> int:
        """How many batches an epoch has; with BPE-dropout or in a large store, about how many."""
        return per_epoch(replace(self, resample=None))

    def __len__(self) -> int:
        return len(self.store)

    def parts(self) -> list[range]:
        return self.store.parts()

    def cut(self, members: np.ndarray, epoch: int, pool: int) -> list["_Make"]:
        """The pairs of one pool as batches, neighbours in length together."""
        return grouped(self._load(members, epoch, pool), self.tokens, self.sentences)

    @staticmethod
    def of_pairs(pairs: Sequence[tuple[list[int], list[int]]], tokens: int, max_length: int) -> Iterator[Batch]:
        """Every pair of ids once, shortest first: for validation."""
        cut = [(source[: max_length - 1], target[: max_length - 1]) for source, target in pairs]
        known = [
            _Pair(number, np.array(source), np.array(target)) for number, (source, target) in enumerate(cut)
        ]
        return (make() for make in grouped(known, tokens))

    def _load(self, members: np.ndarray, epoch: int, pool: int) -> list["_Pair"]:
        sides = []
        for number, side in enumerate((self.store.source, self.store.target)):
            if self.resample is None:
                ids = [side.sentence(int(member)) for member in members]
            else:
                seed = int(np.random.default_rng((self.seed, epoch, pool, 2, number)).integers(2**62))
                ids = self._sampled(side, members, number, seed)
            sides.append([each[: self.max_length - 1] for each in ids])  # one place is for <s> or </s>
        return [_Pair(int(member), *both) for member, *both in zip(members, *sides, strict=True)]

    def _sampled(self, side: Side, members: np.ndarray, number: int, seed: int) -> list[np.ndarray]:
        assert self.resample is not None
        texts = [side.text(int(member)) for member in members]
        return [np.array(each, dtype=np.uint32) for each in self.resample[number](texts, seed)]


@dataclass(frozen=True)
class _Pair:
    member: int
    source: np.ndarray
    target: np.ndarray


def grouped(pairs: list[_Pair], tokens: int, sentences: int = 0) -> list["_Make"]:
    """Neighbours in length together, until the longest of them times their number is the budget."""
    in_order = sorted(pairs, key=lambda pair: (len(pair.target), len(pair.source), pair.member))
    widths = [max(len(pair.source), len(pair.target)) + 1 for pair in in_order]
    return [_Make(group) for group in by_budget(in_order, widths, tokens, sentences)]


@dataclass(frozen=True)
class _Make:
    """A batch not yet laid out: ids stay where they are until it is its turn."""

    pairs: list[_Pair]

    def __call__(self, rank: int = 0, ranks: int = 1) -> Batch:
        """Every row, or one process's share of them; there may be none for it."""
        mine = self.pairs[rank::ranks]
        return Batch(
            source=Packed.from_rows([np.append(pair.source, Tokenizer.end) for pair in mine]),
            target=Packed.from_rows([np.insert(pair.target, 0, Tokenizer.begin) for pair in mine]),
            labels=Packed.from_rows([np.append(pair.target, Tokenizer.end) for pair in mine]),
            tokens=sum(len(pair.target) + 1 for pair in self.pairs),
            sentences=tuple(pair.member for pair in mine),
        )
