"""How well a key fits a query: the one part in which the attention papers differ.

Every score maps queries (..., query, size) and keys (..., key, size) to (..., query, key). What depends on
the keys alone is done once by `prepare`, so a decoder that asks the same keys again and again pays once.
"""

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional


class Score(nn.Module):
    """Query meets key. A subclass gives `compare`, and `prepare` where keys can be worked on in advance."""

    def forward(self, query: Tensor, keys: Tensor, *, prepared: bool = False) -> Tensor:
        """Score every query (..., query, size) against every key (..., key, size): (..., query, key).

        With `prepared` the keys went through `prepare` already.
        """
        return self.compare(query, keys if prepared else self.prepare(keys))

    def prepare(self, keys: Tensor) -> Tensor:
        """Do the part of the work that depends on the keys alone."""
        return keys

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Score queries against prepared keys."""
        raise NotImplementedError


def check_equal_sizes(query: Tensor, keys: Tensor) -> None:
    """Refuse an inner product of vectors that do not have the same length."""
    if query.size(-1) != keys.size(-1):
        raise ValueError(
            f"a dot score needs queries and keys of equal size; queries have {query.size(-1)}, "
            f"keys have {keys.size(-1)} (General, Additive and Concat take unequal sizes)"
        )


class Dot(Score):
    """The plain inner product q.k (Luong et al. 2015, eq. 8)."""

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        check_equal_sizes(query, prepared)
        return query @ prepared.transpose(-1, -2)


class ScaledDot(Dot):
    """The inner product over sqrt(d): keeps its variance at 1 whatever d is (Vaswani et al. 2017, eq. 1)."""

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        # Scaling the query costs query x d, scaling the result query x key.
        return super().compare(query / math.sqrt(query.size(-1)), prepared)


class General(Score):
    """q^T W k: a learned bilinear form; sizes may differ (Luong et al. 2015, eq. 8)."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_size, key_size))
        nn.init.xavier_uniform_(self.weight)

    def prepare(self, keys: Tensor) -> Tensor:
        return functional.linear(keys, self.weight)  # (..., key, query size)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        return query @ prepared.transpose(-1, -2)


class Additive(Score):
    """w_v^T tanh(W_q q + W_k k): a small network looks at both; sizes may differ (Bahdanau et al. 2015)."""

    def __init__(self, query_size: int, key_size: int, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, hidden, bias=False)
        self.key = nn.Linear(key_size, hidden, bias=False)
        self.value = nn.Linear(hidden, 1, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        return cast(Tensor, self.key(keys))  # (..., key, hidden)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        both = self.query(query).unsqueeze(-2) + prepared.unsqueeze(-3)  # (..., query, key, hidden)
        return cast(Tensor, self.value(torch.tanh(both)).squeeze(-1))


class Concat(Score):
    """v^T tanh(W [h; s]) with h the key and s the query: one matrix over both, side by side.

    W [h; s] is W_h h + W_s s, so the pairs are never laid out: W is cut, not the inputs joined.
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
        asked = functional.linear(query, self.weight[:, self.key_size :])  # (..., query, hidden)
        both = asked.unsqueeze(-2) + prepared.unsqueeze(-3)  # (..., query, key, hidden)
        return cast(Tensor, self.value(torch.tanh(both)).squeeze(-1))


class Gaussian(Score):
    """-|(q - k) w|^2 / 2: softmax over it is Nadaraya-Watson kernel regression with a Gaussian kernel.

    `w` is one number: 1 is the textbook's kernel, 0 is plain averaging, a larger one looks more sharply.
    With `learned=True` it is trained.
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
        gap = (query.unsqueeze(-2) - prepared.unsqueeze(-3)) * self.sharpness  # (..., query, key, size)
        return -gap.square().sum(-1) / 2
