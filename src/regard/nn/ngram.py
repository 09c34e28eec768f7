"""N-gram language model with interpolated Kneser-Ney smoothing (Ney et al. 1994; Chen and Goodman 1999).

An n-gram of the highest order is counted as often as it occurs, a shorter one by the number of different tokens
before it (continuation count). Every count is discounted, and the discounted mass goes to the lower order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.nn.recorder import Recorder

DEFAULT_DISCOUNT = 0.75
"""Discount if there are too few counts to estimate it."""


@dataclass(frozen=True)
class NgramCounts:
    """The counts of all n-grams of one order that occurred.

    An n-gram is identified by its index among those of its order; its context is its prefix without the last
    token.
    """

    keys: np.ndarray  # (n-grams,), sorted: index of the context * vocabulary + last token
    counts: np.ndarray  # (n-grams,)


class Ngram(nn.Module):
    """N-gram language model; counts and discounts are buffers, so that a run folder can store them.

    Args:
        vocabulary: Number of ids.
        tables: Counts of the n-grams of order 1, 2, ...
        discounts: Discount of each order.
    """

    def __init__(self, vocabulary: int, tables: Sequence[NgramCounts], discounts: Sequence[float]) -> None:
        super().__init__()
        self.vocabulary, self.order = vocabulary, len(tables)
        self.tables, self.order_discounts = list(tables), list(discounts)
        self.totals: list[np.ndarray] = []
        self.types: list[np.ndarray] = []
        """For each context of 0, 1, ... tokens: sum of the counts after it, number of different tokens."""
        for length, table in enumerate(tables):
            contexts = 1 if length == 0 else len(tables[length - 1].keys)
            parents = table.keys // vocabulary
            self.totals.append(np.bincount(parents, weights=table.counts, minlength=contexts))
            self.types.append(np.bincount(parents, weights=table.counts > 0, minlength=contexts))
            # Float64, as all weights of a run are floating-point numbers; exact for integers up to 2 ** 53.
            self.register_buffer(f"keys_{length + 1}", torch.from_numpy(table.keys.astype(np.float64)))
            self.register_buffer(f"counts_{length + 1}", torch.from_numpy(table.counts.astype(np.float64)))
        self.register_buffer("discounts", torch.tensor(discounts, dtype=torch.float64))

    def token_losses(self, ids: np.ndarray) -> np.ndarray:
        """Negative log-likelihood in nats of each token but the first: ids (tokens,) -> (tokens - 1,)."""
        ids = ids.astype(np.int64)
        probabilities = np.full(len(ids), 1 / self.vocabulary)
        context = np.zeros(len(ids), np.int64)  # index of the n-gram before each position, -1 if unseen
        for length, table in enumerate(self.tables):
            index = find_ngrams(table.keys, context, ids, self.vocabulary)
            counts = np.where(index >= 0, table.counts[index], 0)
            probabilities = self.interpolate(length, context, counts, probabilities)
            context = np.concatenate([[-1], index[:-1]])  # the n-gram that ends one position earlier
        return np.asarray(-np.log(probabilities[1:]))

    def interpolate(
        self, length: int, context: np.ndarray, counts: np.ndarray, lower_order: np.ndarray
    ) -> np.ndarray:
        """Probabilities after contexts of `length` tokens, interpolated with those of the lower order."""
        discount = self.order_discounts[length]
        total = np.where(context >= 0, self.totals[length][context], 0)
        backoff = discount * self.types[length][context] * lower_order
        seen = total > 0
        return np.asarray(
            np.where(seen, (np.maximum(counts - discount, 0) + backoff) / np.where(seen, total, 1), lower_order)
        )

    def probabilities(self, ids: Sequence[int]) -> np.ndarray:
        """The distribution of the next token: (vocabulary,)."""
        probabilities = np.full(self.vocabulary, 1 / self.vocabulary)
        for length, table in enumerate(self.tables):
            context = self.index_of(ids[len(ids) - length :]) if length <= len(ids) else -1
            if context < 0:
                break
            first, last = np.searchsorted(
                table.keys, [context * self.vocabulary, (context + 1) * self.vocabulary]
            )
            counts = np.zeros(self.vocabulary)
            counts[table.keys[first:last] % self.vocabulary] = table.counts[first:last]
            probabilities = self.interpolate(length, np.full(self.vocabulary, context), counts, probabilities)
        return probabilities

    def index_of(self, ids: Sequence[int]) -> int:
        """The index of an n-gram among those of its order, -1 if it never occurred."""
        index = np.zeros(1, np.int64)
        for token, table in zip(ids, self.tables, strict=False):
            index = find_ngrams(table.keys, index, np.array([token]), self.vocabulary)
        return int(index[0])

    def start(self, source: Tensor) -> "NgramState":
        """The state after a prompt of ids (texts, length), which may be empty."""
        return NgramState(source, self.order)

    def step(
        self, tokens: Tensor, state: "NgramState", record: Recorder | None = None
    ) -> tuple[Tensor, "NgramState"]:
        """One token per text (texts,) -> log probabilities (texts, vocabulary), and a new state."""
        state = state.append(tokens)
        log_probabilities = [np.log(self.probabilities(ids)) for ids in state.ids.tolist()]
        return torch.from_numpy(np.stack(log_probabilities)).float().to(tokens.device), state


@dataclass(frozen=True)
class NgramState:
    """The last `order` tokens of each text."""

    ids: Tensor  # (texts, order or fewer)
    order: int

    def append(self, tokens: Tensor) -> "NgramState":
        ids = torch.cat([self.ids, tokens.unsqueeze(1)], dim=1)
        return NgramState(ids[:, max(0, ids.size(1) - self.order) :], self.order)

    def select(self, rows: Tensor) -> "NgramState":
        return NgramState(self.ids.index_select(0, rows), self.order)


def find_ngrams(keys: np.ndarray, context: np.ndarray, tokens: np.ndarray, vocabulary: int) -> np.ndarray:
    """The index of each n-gram (context, token) among the sorted keys, -1 if it is not there."""
    wanted = context * vocabulary + tokens
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.asarray(np.where((context >= 0) & (keys[index] == wanted), index, -1))


def count_ngrams(sequences: Sequence[np.ndarray], vocabulary: int, order: int, discount: float = 0.0) -> Ngram:
    """Train an n-gram model by counting.

    Args:
        sequences: Ids (tokens,) of each sequence; n-grams do not cross their borders.
        vocabulary: Number of ids.
        order: Length of the longest n-grams.
        discount: Discount of every order; 0: estimated from the counts.
    """
    tokens = np.concatenate([ids.astype(np.int64) for ids in sequences])
    positions = np.concatenate([np.arange(len(ids)) for ids in sequences])
    contexts = np.zeros(len(tokens), np.int64)  # index of the n-gram that ends one position earlier
    tables: list[NgramCounts] = []
    shorter = contexts
    for length in range(1, order + 1):
        complete = np.flatnonzero(positions >= length - 1)  # positions with enough tokens before them
        if not len(complete):
            break
        keys, first, index, counts = np.unique(
            contexts[complete] * vocabulary + tokens[complete],
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        if tables:  # continuation counts: one for each different n-gram that ends in the shorter one
            suffixes = shorter[complete[first]]
            tables[-1] = NgramCounts(tables[-1].keys, np.bincount(suffixes, minlength=len(tables[-1].keys)))
        tables.append(NgramCounts(keys, counts))
        shorter = np.full(len(tokens), -1)
        shorter[complete] = index
        contexts = np.concatenate([[-1], shorter[:-1]])
    return Ngram(vocabulary, tables, [discount or estimate_discount(table.counts) for table in tables])


def estimate_discount(counts: np.ndarray) -> float:
    """n1 / (n1 + 2 n2), where n1 and n2 are the numbers of n-grams counted once and twice."""
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return once / (once + 2 * twice) if once and twice else DEFAULT_DISCOUNT


def ngram_from_tensors(tensors: dict[str, Tensor], vocabulary: int) -> Ngram:
    """The n-gram model with the buffers of a run folder.

    Raises:
        ValueError: The tensors are not those of an n-gram model.
    """
    order = len(tensors) // 2
    try:
        tables = [
            NgramCounts(*(tensors[f"{part}_{length}"].double().numpy() for part in ("keys", "counts")))
            for length in range(1, order + 1)
        ]
        discounts = tensors["discounts"].flatten().tolist()
    except KeyError as problem:
        raise ValueError(f"{problem} is missing") from None
    contexts = 1
    for table in tables:
        check_counts(table, contexts * vocabulary)
        contexts = len(table.keys)
    if not order or len(discounts) != order or not all(0 < discount < 1 for discount in discounts):
        raise ValueError("the discounts are not one number between 0 and 1 for each order")
    tables = [NgramCounts(table.keys.astype(np.int64), table.counts) for table in tables]
    return Ngram(vocabulary, tables, discounts)


def check_counts(table: NgramCounts, limit: int) -> None:
    """Raise ValueError unless the keys are sorted integers below `limit`, with one count each."""
    keys, counts = table.keys, table.counts
    if not len(keys) or keys.ndim != 1 or keys.shape != counts.shape:
        raise ValueError("an order has no n-grams, or not one count for each")
    if not (np.isfinite(keys).all() and (keys == np.floor(keys)).all() and (np.diff(keys) > 0).all()):
        raise ValueError("the n-grams of an order are not sorted")
    if keys[0] < 0 or keys[-1] >= limit or not (np.isfinite(counts) & (counts >= 0)).all():
        raise ValueError("an n-gram is outside the vocabulary, or a count is negative")
