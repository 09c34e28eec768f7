"""Attention masks: boolean, True = may attend, as in PyTorch's scaled_dot_product_attention.

Masks made here have a batch axis: (batch or 1, query or 1, key). A mask of two axes is read as (query, key).
"""

from functools import reduce

import torch
from torch import Tensor


def padding_mask(ids: Tensor, padding: int) -> Tensor:
    """Attend to the keys that are not padding: (batch, key) ids -> (batch, 1, key)."""
    return (ids != padding).unsqueeze(-2)


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """Attend to the first `lengths` keys of `size`.

    One length a sequence, (batch,), gives (batch, 1, key); one a query, (batch, query), gives
    (batch, query, key).
    """
    if lengths.dim() not in (1, 2):
        raise ValueError(
            f"valid lengths are (batch,) or (batch, query); these have the shape {tuple(lengths.shape)}"
        )
    if lengths.dim() == 1:
        lengths = lengths.unsqueeze(-1)
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)


def causal_mask(queries: int, keys: int | None = None, device: torch.device | str | None = None) -> Tensor:
    """Attend to the own position and those before it: (1, query, key).

    With more keys than queries the queries are the last ones, as when earlier keys come from a cache.
    """
    keys = queries if keys is None else keys
    if keys < queries:
        raise ValueError(f"a causal mask needs a key for each query; {queries} queries, {keys} keys")
    mask = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return mask.tril(keys - queries).unsqueeze(0)


def combine(*masks: Tensor | None) -> Tensor | None:
    """Attend where every mask allows it; None allows everything."""
    given = [mask for mask in masks if mask is not None]
    return reduce(torch.logical_and, given) if given else None
