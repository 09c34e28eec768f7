"""N-gram language model: counts of what follows the last few tokens, or fewer where those are rare.

Interpolated Kneser-Ney (Ney et al. 1994; Chen and Goodman 1999): a run of `order` tokens counts as often as it
occurs, a shorter one by the number of different tokens before it; every count is discounted in favour of
shorter runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.nn.recorder import Recorder

USUAL_DISCOUNT = 0.75
"""Where there are too few counts to estimate it."""


@dataclass(frozen=True)
class Runs:
    """All runs of one length that occurred, each identified by the index of the run without its last token."""

    keys: np.ndarray  # (runs,), sorted: number of the shorter run * vocabulary + token
    counts: np.ndarray  # (runs,)


class Ngram(nn.Module):
    """Runs of 1 to `order` tokens; they are kept as tensors so that a run folder can hold them."""

    def __init__(self, vocabulary: int, runs: Sequence[Runs], discounts: Sequence[float]) -> None:
        super().__init__()
        self.vocabulary, self.order = vocabulary, len(runs)
        self.runs, self.taken = list(runs), list(discounts)
        self.totals: list[np.ndarray] = []
        self.kinds: list[np.ndarray] = []
        """For each context of 0, 1, ... tokens: how much came after it, and how many different tokens."""
        for length, each in enumerate(runs):
            contexts = 1 if length == 0 else len(runs[length - 1].keys)
            parents = each.keys // vocabulary
            self.totals.append(np.bincount(parents, weights=each.counts, minlength=contexts))
            self.kinds.append(np.bincount(parents, weights=each.counts > 0, minlength=contexts))
            # Weights are floating-point numbers; these hold whole ones exactly, up to 2 ** 53.
            self.register_buffer(f"keys_{length + 1}", torch.from_numpy(each.keys.astype(np.float64)))
            self.register_buffer(f"counts_{length + 1}", torch.from_numpy(each.counts.astype(np.float64)))
        self.register_buffer("discounts", torch.tensor(discounts, dtype=torch.float64))

    def nats(self, row: np.ndarray) -> np.ndarray:
        """Negative log likelihood of each token but the first, given those before it: (tokens - 1,)."""
        row = row.astype(np.int64)
        shares = np.full(len(row), 1 / self.vocabulary)
        context = np.zeros(
            len(row), np.int64
        )  # the number of the run before each place, -1 where it is unknown
        for length, runs in enumerate(self.runs):
            run = find_runs(runs.keys, context, row, self.vocabulary)
            counts = np.where(run >= 0, runs.counts[run], 0)
            shares = self.mixed(length, context, counts, shares)
            context = np.concatenate([[-1], run[:-1]])  # what ended one place earlier
        return np.asarray(-np.log(shares[1:]))

    def mixed(self, length: int, context: np.ndarray, counts: np.ndarray, shorter: np.ndarray) -> np.ndarray:
        """Shares by runs one token longer than `length`, filled up with those by shorter ones."""
        discount = self.taken[length]
        total = np.where(context >= 0, self.totals[length][context], 0)
        left_over = discount * self.kinds[length][context] * shorter
        known = total > 0
        return np.asarray(
            np.where(known, (np.maximum(counts - discount, 0) + left_over) / np.where(known, total, 1), shorter)
        )

    def shares(self, ids: Sequence[int]) -> np.ndarray:
        """The share of every token after these: (vocabulary,), in all 1."""
        shares = np.full(self.vocabulary, 1 / self.vocabulary)
        for length, runs in enumerate(self.runs):
            context = self.number_of(ids[len(ids) - length :]) if length <= len(ids) else -1
            if context < 0:
                break
            first, last = np.searchsorted(
                runs.keys, [context * self.vocabulary, (context + 1) * self.vocabulary]
            )
            counts = np.zeros(self.vocabulary)
            counts[runs.keys[first:last] % self.vocabulary] = runs.counts[first:last]
            shares = self.mixed(length, np.full(self.vocabulary, context), counts, shares)
        return shares

    def number_of(self, ids: Sequence[int]) -> int:
        """The number of a run of tokens, -1 where it never occurred."""
        number = np.zeros(1, np.int64)
        for token, runs in zip(ids, self.runs, strict=False):
            number = find_runs(runs.keys, number, np.array([token]), self.vocabulary)
        return int(number[0])

    def start(self, source: Tensor) -> "NgramState":
        """Read ids (texts, length), of which there may be none."""
        return NgramState(source, self.order)

    def step(
        self, tokens: Tensor, state: "NgramState", record: Recorder | None = None
    ) -> tuple[Tensor, "NgramState"]:
        """One token each (texts,) -> log probabilities (texts, vocabulary); there is no attention to record."""
        state = state.grown(tokens)
        rows = [np.log(self.shares(ids)) for ids in state.ids.tolist()]
        return torch.from_numpy(np.stack(rows)).float().to(tokens.device), state


@dataclass(frozen=True)
class NgramState:
    """The last tokens of each text, as many as runs are long."""

    ids: Tensor
    order: int

    def grown(self, tokens: Tensor) -> "NgramState":
        longer = torch.cat([self.ids, tokens.unsqueeze(1)], dim=1)
        return NgramState(longer[:, max(0, longer.size(1) - self.order) :], self.order)

    def select(self, rows: Tensor) -> "NgramState":
        return NgramState(self.ids.index_select(0, rows), self.order)


def find_runs(keys: np.ndarray, context: np.ndarray, tokens: np.ndarray, vocabulary: int) -> np.ndarray:
    """The number of each run (context, token) among the sorted keys, -1 where there is none."""
    wanted = context * vocabulary + tokens
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.asarray(np.where((context >= 0) & (keys[index] == wanted), index, -1))


def counted(rows: Sequence[np.ndarray], vocabulary: int, order: int, discount: float = 0.0) -> Ngram:
    """Count the runs of rows of ids; a discount of 0 is estimated from the counts: n1 / (n1 + 2 n2)."""
    tokens = np.concatenate([row.astype(np.int64) for row in rows])
    positions = np.concatenate([np.arange(len(row)) for row in rows])
    numbers = np.zeros(len(tokens), np.int64)  # of the run that ended one place earlier
    every: list[Runs] = []
    shorter = numbers
    for length in range(1, order + 1):
        whole = np.flatnonzero(positions >= length - 1)  # runs do not reach over the beginning of a row
        if not len(whole):
            break
        keys, first, run, counts = np.unique(
            numbers[whole] * vocabulary + tokens[whole],
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        if every:  # a shorter run counts once for each different run that ends in it
            ends = shorter[whole[first]]
            every[-1] = Runs(every[-1].keys, np.bincount(ends, minlength=len(every[-1].keys)))
        every.append(Runs(keys, counts))
        shorter = np.full(len(tokens), -1)
        shorter[whole] = run
        numbers = np.concatenate([[-1], shorter[:-1]])
    return Ngram(vocabulary, every, [discount or usual_discount(each.counts) for each in every])


def usual_discount(counts: np.ndarray) -> float:
    """n1 / (n1 + 2 n2), from how many runs were counted once and twice."""
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return once / (once + 2 * twice) if once and twice else USUAL_DISCOUNT


def from_tensors(tensors: dict[str, Tensor], vocabulary: int) -> Ngram:
    """The counts that a run folder holds; ValueError where they cannot be counts."""
    order = len(tensors) // 2
    try:
        every = [
            Runs(*(tensors[f"{part}_{length}"].double().numpy() for part in ("keys", "counts")))
            for length in range(1, order + 1)
        ]
        discounts = tensors["discounts"].flatten().tolist()
    except KeyError as problem:
        raise ValueError(f"{problem} is missing") from None
    contexts = 1
    for runs in every:
        check(runs, contexts * vocabulary)
        contexts = len(runs.keys)
    if not order or len(discounts) != order or not all(0 < each < 1 for each in discounts):
        raise ValueError("its discounts are not between 0 and 1, one for each length of run")
    return Ngram(vocabulary, [Runs(runs.keys.astype(np.int64), runs.counts) for runs in every], discounts)


def check(runs: Runs, limit: int) -> None:
    keys, counts = runs.keys, runs.counts
    if not len(keys) or keys.ndim != 1 or keys.shape != counts.shape:
        raise ValueError("a length of run has no counts, or not one for each")
    if not (np.isfinite(keys).all() and (keys == np.floor(keys)).all() and (np.diff(keys) > 0).all()):
        raise ValueError("its runs are not in order")
    if keys[0] < 0 or keys[-1] >= limit or not (np.isfinite(counts) & (counts >= 0)).all():
        raise ValueError("a run of it is of tokens that there are not")
