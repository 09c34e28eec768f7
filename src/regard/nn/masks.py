"""Who may look where. A mask is boolean, True = may look, and always has a batch axis.

Shapes are (batch or 1, query or 1, key): two-dimensional masks are refused by multi-head attention, because
(batch, key) and (query, key) cannot be told apart and the wrong reading is silent.
"""

from functools import reduce

import torch
from torch import Tensor


def padding_mask(ids: Tensor, padding: int) -> Tensor:
    """Let every query see the keys that are not padding: (batch, key) ids -> (batch, 1, key)."""
    return (ids != padding).unsqueeze(-2)


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """Let queries see the first `lengths` keys of `size`.

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
    """Let each query see its own place and what is before it: (1, query, key).

    With more keys than queries the queries are the last ones, as when earlier keys come from a cache.
    """
    keys = queries if keys is None else keys
    if keys < queries:
        raise ValueError(f"a causal mask needs a key for each query; {queries} queries, {keys} keys")
    mask = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return mask.tril(keys - queries).unsqueeze(0)


def combine(*masks: Tensor | None) -> Tensor | None:
    """Let a query see what every mask lets it see; None stands for 'everything'."""
    given = [mask for mask in masks if mask is not None]
    return reduce(torch.logical_and, given) if given else None
