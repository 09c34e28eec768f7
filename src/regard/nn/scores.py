"""Score functions: how well a key matches a query.

Every score maps queries (..., query, size) and keys (..., key, size) to (..., query, key). `prepare` computes
the part that depends on the keys alone, which a decoder does once per sequence.
"""

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.models import ScoreName


class Score(nn.Module):
    """A score function. A subclass defines `compare`, and `prepare` where keys can be processed in advance."""

    def forward(self, query: Tensor, keys: Tensor, *, prepared: bool = False) -> Tensor:
        """Score every query (..., query, size) against every key (..., key, size): (..., query, key).

        With `prepared` the keys went through `prepare` already.
        """
        return self.compare(query, keys if prepared else self.prepare(keys))

    def prepare(self, keys: Tensor) -> Tensor:
        """The part that depends on the keys alone: (..., key, size) -> (..., key, any size)."""
        return keys

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Score queries (..., query, size) against prepared keys: (..., query, key)."""
        raise NotImplementedError


def check_equal_sizes(query: Tensor, keys: Tensor, score: str = "dot") -> None:
    """Raise ValueError unless queries and keys have the same size."""
    if query.size(-1) != keys.size(-1):
        raise ValueError(
            f"a {score} score needs queries and keys of the same size; queries have {query.size(-1)}, "
            f"keys have {keys.size(-1)} (General, Additive and Concat allow different sizes)"
        )


class Dot(Score):
    """Inner product q.k (Luong et al. 2015, eq. 8)."""

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        check_equal_sizes(query, prepared)
        return query @ prepared.transpose(-1, -2)


class ScaledDot(Dot):
    """q.k / sqrt(d), whose variance is 1 for any size d (Vaswani et al. 2017, eq. 1)."""

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        # Scaling the query costs query x d, scaling the result query x key.
        return super().compare(query / math.sqrt(query.size(-1)), prepared)


class General(Score):
    """q^T W k: a learned bilinear form; the sizes may differ (Luong et al. 2015, eq. 8)."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_size, key_size))
        nn.init.xavier_uniform_(self.weight)

    def prepare(self, keys: Tensor) -> Tensor:
        return functional.linear(keys, self.weight)  # (..., key, query size)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        return query @ prepared.transpose(-1, -2)


class Additive(Score):
    """w_v^T tanh(W_q q + W_k k); the sizes may differ (Bahdanau et al. 2015)."""

    def __init__(self, query_size: int, key_size: int, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, hidden, bias=False)
        self.key = nn.Linear(key_size, hidden, bias=False)
        self.value = nn.Linear(hidden, 1, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        return cast(Tensor, self.key(keys))  # (..., key, hidden)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        hidden = self.query(query).unsqueeze(-2) + prepared.unsqueeze(-3)  # (..., query, key, hidden)
        return cast(Tensor, self.value(torch.tanh(hidden)).squeeze(-1))


class Concat(Score):
    """v^T tanh(W [h; s]), where h is the key and s the query (Luong et al. 2015, eq. 8); the sizes may differ.

    W [h; s] is computed as W_h h + W_s s, without concatenating every pair.
    """

    def __init__(self, query_size: int, key_size: int, hidden: int) -> None:
        super().__init__()
        self.key_size = key_size
        self.weight = nn.Parameter(torch.empty(hidden, key_size + query_size))
        self.value = nn.Linear(hidden, 1, bias=False)
        nn.init.xavier_uniform_(self.weight)

    def prepare(self, keys: Tensor) -> Tensor:
        return functional.linear(keys, self.weight[:, : self.key_size])  # (..., key, hidden)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        projected = functional.linear(query, self.weight[:, self.key_size :])  # (..., query, hidden)
        hidden = projected.unsqueeze(-2) + prepared.unsqueeze(-3)  # (..., query, key, hidden)
        return cast(Tensor, self.value(torch.tanh(hidden)).squeeze(-1))


class Gaussian(Score):
    """-|(q - k) w|^2 / 2: softmax over it is Nadaraya-Watson kernel regression with a Gaussian kernel.

    Args:
        sharpness: The number w: 0 averages all values, larger numbers give sharper weights.
        learned: Whether w is trained.
    """

    def __init__(self, sharpness: float = 1.0, *, learned: bool = False) -> None:
        super().__init__()
        start = torch.tensor(float(sharpness))
        self.sharpness: Tensor
        if learned:
            self.sharpness = nn.Parameter(start)
        else:
            self.register_buffer("sharpness", start)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        difference = (query.unsqueeze(-2) - prepared.unsqueeze(-3)) * self.sharpness  # (..., query, key, size)
        return -difference.square().sum(-1) / 2


class Cosine(Score):
    """s q.k / (|q| |k|): the cosine of the angle between query and key, times a scale s (Henry et al. 2020).

    The lengths of the vectors have no effect, so no score exceeds s. A vector of zeros scores 0.

    Args:
        scale: The inverse of the softmax's temperature.
        learned: Whether the scale is trained.
    """

    def __init__(self, scale: float = 1.0, *, learned: bool = False) -> None:
        super().__init__()
        start = torch.tensor([float(scale)])  # a vector: PyTorch cannot shard a parameter without an axis
        self.scale: Tensor
        if learned:
            self.scale = nn.Parameter(start)
        else:
            self.register_buffer("scale", start)

    def prepare(self, keys: Tensor) -> Tensor:
        return functional.normalize(keys, dim=-1, eps=1e-6)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        check_equal_sizes(query, prepared, "cosine")
        return self.scale * functional.normalize(query, dim=-1, eps=1e-6) @ prepared.transpose(-1, -2)


SCORES: dict[ScoreName, Callable[[int, int, int], Score]] = {
    "scaled-dot": lambda query_size, key_size, hidden: ScaledDot(),
    "dot": lambda query_size, key_size, hidden: Dot(),
    "general": lambda query_size, key_size, hidden: General(query_size, key_size),
    "additive": Additive,
    "concat": Concat,
    # Initially -|q - k|^2 / (2 sqrt(d)), so that the variance does not grow with the size.
    "gaussian": lambda query_size, key_size, hidden: Gaussian(key_size**-0.25, learned=True),
    # Initially a scale of sqrt(d), so that the variance is that of the scaled dot product.
    "cosine": lambda query_size, key_size, hidden: Cosine(math.sqrt(key_size), learned=True),
}
"""Score functions by name; each entry takes the sizes of queries, of keys and of the hidden layer."""


def make_score(name: ScoreName, query_size: int, key_size: int = 0, hidden: int = 0) -> Score:
    """A score with fresh weights, by its name in a recipe.

    Args:
        name: One of `SCORES`.
        query_size: Size of a query.
        key_size: Size of a key; 0: as a query's.
        hidden: Size of the hidden layer of an additive or concat score; 0: as a query's.
    """
    return SCORES[name](query_size, key_size or query_size, hidden or query_size)
