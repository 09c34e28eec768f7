"""Attention masks: boolean, True = may attend, as in PyTorch's scaled_dot_product_attention.

The masks have a batch axis: (batch or 1, query or 1, key). Attention takes a mask of two axes as (query, key).
"""

from functools import reduce

import torch
from torch import Tensor


def padding_mask(ids: Tensor, padding: int) -> Tensor:
    """Attend to the keys that are not padding.

    Args:
        ids: (batch, key).
        padding: Id of the padding.

    Returns:
        (batch, 1, key).
    """
    return (ids != padding).unsqueeze(-2)


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """Attend to the first `lengths` keys.

    Args:
        lengths: Number of valid keys, per sequence (batch,) or per query (batch, query).
        size: Number of keys.

    Returns:
        (batch, 1, key), or (batch, query, key) for a length per query.

    Raises:
        ValueError: The lengths have another number of axes.
    """
    if lengths.dim() not in (1, 2):
        raise ValueError(f"valid lengths are (batch,) or (batch, query), not {tuple(lengths.shape)}")
    if lengths.dim() == 1:
        lengths = lengths.unsqueeze(-1)
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)


def causal_mask(queries: int, keys: int | None = None, device: torch.device | str | None = None) -> Tensor:
    """Attend to the same and earlier positions.

    Args:
        queries: Number of queries.
        keys: Number of keys, at least as many; the queries are the last positions, as with a KV cache.
        device: Device of the mask.

    Returns:
        (1, query, key).

    Raises:
        ValueError: There are fewer keys than queries.
    """
    keys = queries if keys is None else keys
    if keys < queries:
        raise ValueError(
            f"a causal mask needs at least as many keys as queries; {queries} queries, {keys} keys"
        )
    mask = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return mask.tril(keys - queries).unsqueeze(0)


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """Attend where every mask allows it; None allows everything."""
    present = [mask for mask in masks if mask is not None]
    return reduce(torch.logical_and, present) if present else None
