"""Batches of sentence pairs of similar length, in the order of `batch_order`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from regard.data.batch_order import Cursor, count_batches, group_by_tokens, shuffled_batches
from regard.data.token_store import Side, TokenStore
from regard.nn import Packed
from regard.tokenization import Tokenizer


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as packed token ids."""

    source: Packed
    target: Packed
    """The decoder's input: the target shifted right, beginning with `<s>`."""
    labels: Packed
    """The decoder's targets, ending with `</s>`; each sentence has as many tokens as in `target`."""
    tokens: int
    """Target tokens in the whole batch, also where this is one process's shard of it."""
    sentences: tuple[int, ...]
    """Indices of the pairs in the store."""

    def __post_init__(self) -> None:
        lengths = [packed.lengths for packed in (self.source, self.target, self.labels)]
        if len(lengths[0]) != len(lengths[1]) or not torch.equal(lengths[1], lengths[2]):
            raise ValueError("each source sentence has a target, and each target token a label")

    @property
    def num_targets(self) -> int:
        """Number of labels over which the loss is summed: one per target token."""
        return self.tokens

    @property
    def rows(self) -> int:
        return self.source.sequences

    def __str__(self) -> str:
        """The batch's size for messages."""
        source, target = self.source.max_length, self.target.max_length
        return f"{self.rows} sentences of {source} source and {target} target tokens"

    def to(self, device: torch.device) -> "Batch":
        return self._with(*(packed.to(device, non_blocking=True) for packed in self._packed()))

    def placeholder(self) -> "Batch":
        """One pair of `</s>` only, for a process with an empty shard that runs collective operations."""
        end = Packed.from_rows([[Tokenizer.end]])
        return Batch(end, end, end, self.tokens, ())

    def pin_memory(self) -> "Batch":
        """The batch in page-locked memory, from which a GPU copies asynchronously."""
        return self._with(*(packed.pin_memory() for packed in self._packed()))

    def _packed(self) -> tuple[Packed, Packed, Packed]:
        return self.source, self.target, self.labels

    def _with(self, source: Packed, target: Packed, labels: Packed) -> "Batch":
        return Batch(source, target, labels, self.tokens, self.sentences)


Resample = Callable[[list[str], int], list[list[int]]]
"""From texts and a seed to sampled segmentations as ids (BPE-dropout)."""


@dataclass(frozen=True)
class Batches:
    """Shuffled batches of a token store, by token budget or by number of sentences."""

    store: TokenStore
    tokens: int = 4096
    sentences: int = 0
    seed: int = 1
    pool: int = 20_000
    max_length: int = 256
    """Sentences are truncated to this many tokens, the model's maximum."""
    resample: tuple[Resample, Resample] | None = None
    shard: tuple[int, int] = (0, 1)
    """(rank, world size): which rows of each batch this process gets."""

    def stream(self, cursor: Cursor = Cursor()) -> Iterator[tuple[Batch, Cursor]]:  # noqa: B008
        """Endless batches from the cursor on, each with the cursor of the next."""
        return shuffled_batches(self, cursor)

    def batches_per_epoch(self) -> int:
        """Number of batches per epoch; an estimate with BPE-dropout or for a large store."""
        return count_batches(replace(self, resample=None))

    def __len__(self) -> int:
        return len(self.store)

    def parts(self) -> list[range]:
        return self.store.parts()

    def batches_of_pool(self, indices: np.ndarray, epoch: int, pool: int) -> list["_LazyBatch"]:
        """The batches of one pool, grouped by length."""
        return grouped(self._load(indices, epoch, pool), self.tokens, self.sentences)

    @staticmethod
    def of_pairs(pairs: Sequence[tuple[list[int], list[int]]], tokens: int, max_length: int) -> Iterator[Batch]:
        """Every pair of ids once, shortest first, for validation."""
        truncated = [(source[: max_length - 1], target[: max_length - 1]) for source, target in pairs]
        numbered = [
            _Pair(number, np.array(source), np.array(target))
            for number, (source, target) in enumerate(truncated)
        ]
        return (load() for load in grouped(numbered, tokens))

    def _load(self, indices: np.ndarray, epoch: int, pool: int) -> list["_Pair"]:
        sides = []
        for number, side in enumerate((self.store.source, self.store.target)):
            if self.resample is None:
                ids = [side.sentence(int(index)) for index in indices]
            else:
                seed = int(np.random.default_rng((self.seed, epoch, pool, 2, number)).integers(2**62))
                ids = self._resampled(side, indices, number, seed)
            sides.append(
                [sentence[: self.max_length - 1] for sentence in ids]
            )  # one position is for <s> or </s>
        return [_Pair(int(index), *both) for index, *both in zip(indices, *sides, strict=True)]

    def _resampled(self, side: Side, indices: np.ndarray, number: int, seed: int) -> list[np.ndarray]:
        assert self.resample is not None
        texts = [side.text(int(index)) for index in indices]
        return [np.array(ids, dtype=np.uint32) for ids in self.resample[number](texts, seed)]


@dataclass(frozen=True)
class _Pair:
    index: int
    source: np.ndarray
    target: np.ndarray


def grouped(pairs: list[_Pair], tokens: int, sentences: int = 0) -> list["_LazyBatch"]:
    """Batches of pairs that are neighbours in length, within the token budget."""
    in_order = sorted(pairs, key=lambda pair: (len(pair.target), len(pair.source), pair.index))
    widths = [max(len(pair.source), len(pair.target)) + 1 for pair in in_order]
    return [_LazyBatch(group) for group in group_by_tokens(in_order, widths, tokens, sentences)]


@dataclass(frozen=True)
class _LazyBatch:
    """A batch that is packed when it is called."""

    pairs: list[_Pair]

    def __call__(self, rank: int = 0, world_size: int = 1) -> Batch:
        """The rows of one process (of `world_size`); its shard may be empty."""
        rows_of_rank = self.pairs[rank::world_size]
        return Batch(
            source=Packed.from_rows([np.append(pair.source, Tokenizer.end) for pair in rows_of_rank]),
            target=Packed.from_rows([np.insert(pair.target, 0, Tokenizer.begin) for pair in rows_of_rank]),
            labels=Packed.from_rows([np.append(pair.target, Tokenizer.end) for pair in rows_of_rank]),
            tokens=sum(len(pair.target) + 1 for pair in self.pairs),
            sentences=tuple(pair.index for pair in rows_of_rank),
        )
