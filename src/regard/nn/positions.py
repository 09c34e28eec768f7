"""Position schemes: attention without them does not depend on the order of its input.

Five schemes behind one interface. Absolute ones are added to the embeddings (`embed`); the others act inside
attention: they rotate queries and keys (`rotate`), add to the scores (`bias`) or to the values (`value_bias`).
"""

import math

import torch
from torch import Tensor, nn


class Position(nn.Module):
    """A position scheme; this one encodes nothing. A subclass overrides the methods it needs."""

    needs_weights = False
    """Whether `value_bias` is defined, which needs the attention weights; only the plain path computes them."""

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        """Add positions to embeddings (..., length, d_model) whose first token is at `start`."""
        return x

    def embed_at(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add `positions` (tokens,) to embeddings (tokens, d_model)."""
        return x

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys (..., length, size) at `positions` (length,), rotated."""
        return x

    def bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """Added to the scores: broadcasts to (batch, heads, query, key)."""
        return None

    def value_bias(self, weights: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """Added to the weighted values, from weights (batch, heads, query, key)."""
        return None


def sinusoids(length: int, size: int, dtype: torch.dtype = torch.float32, start: int = 0) -> Tensor:
    """sin(pos / 10000^(2i/d)) in even components, cos of the same in odd ones: (length, size)."""
    if size % 2:
        raise ValueError(f"sinusoidal positions come in pairs of sine and cosine; the size {size} is odd")
    # In float64 for any dtype: in float32 the angle of position 10^6 would be wrong by several degrees.
    position = torch.arange(start, start + length, dtype=torch.float64).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, size, 2, dtype=torch.float64) * (-math.log(10000.0) / size))
    angle = position * frequency  # (length, size / 2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).to(dtype)


class Sinusoidal(Position):
    """Sinusoids of increasing wavelength, added to the embeddings (Vaswani et al. 2017, section 3.5).

    The table is a buffer, not a parameter. Positions after the first `prepared` ones are computed when needed,
    so any length works.

    Args:
        d_model: Size of the embeddings; even.
        prepared: Number of positions in the table.
    """

    def __init__(self, d_model: int, prepared: int = 1024) -> None:
        super().__init__()
        self.d_model = d_model
        self.table: Tensor
        self.register_buffer("table", sinusoids(prepared, d_model), persistent=False)

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        return x + self.at(start, x.size(-2), x.dtype).to(x.device)

    def embed_at(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.at(0, int(positions.max()) + 1, x.dtype).to(x.device).index_select(0, positions)

    def at(self, start: int, length: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """The encodings of `length` positions from `start` on: (length, d_model)."""
        if start + length <= self.table.size(0) and dtype != torch.float64:
            return self.table[start : start + length].to(dtype)
        return sinusoids(length, self.d_model, dtype, start)


class Learned(Position):
    """A trained vector for each position, added to the embeddings.

    Args:
        d_model: Size of the embeddings.
        length: Number of positions.
    """

    def __init__(self, d_model: int, length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(length, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        end = start + x.size(-2)
        self.check_length(end)
        return x + self.table[start:end]

    def embed_at(self, x: Tensor, positions: Tensor) -> Tensor:
        self.check_length(int(positions.max()) + 1)
        return x + nn.functional.embedding(positions, self.table)

    def check_length(self, end: int) -> None:
        if end > self.table.size(0):
            raise ValueError(
                f"a sequence of length {end} is longer than the {self.table.size(0)} learned positions; "
                "shorten it, or train with more positions or another position scheme"
            )


class Relative(Position):
    """A trained vector for each distance, added to keys and values (Shaw et al. 2018, eq. 3 and 4).

    Distances are clipped to `reach`, so any length works. The vectors are shared by the heads.

    Args:
        head_size: Size of the vectors.
        reach: Largest distance that has its own vector.
    """

    needs_weights = True

    def __init__(self, head_size: int, reach: int = 16) -> None:
        super().__init__()
        self.reach = reach
        self.keys = nn.Parameter(torch.empty(2 * reach + 1, head_size))
        self.values = nn.Parameter(torch.empty(2 * reach + 1, head_size))
        nn.init.xavier_uniform_(self.keys)
        nn.init.xavier_uniform_(self.values)

    def bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        check_positions(query, query_positions)
        # q.(k + a) = q.k + q.a: score each distance once, then gather the score of each pair's distance.
        by_distance = query @ self.keys.T / math.sqrt(query.size(-1))  # (batch, heads, query, distance)
        bucket = self._bucket(query_positions, key_positions)
        return by_distance.gather(-1, bucket.expand(*by_distance.shape[:-1], -1))

    def value_bias(self, weights: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        bucket = self._bucket(query_positions, key_positions)
        by_distance = weights.new_zeros(*weights.shape[:-1], 2 * self.reach + 1)
        by_distance = by_distance.scatter_add(-1, bucket.expand_as(weights), weights)
        return by_distance @ self.values  # (batch, heads, query, head size)

    def _bucket(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        distance = key_positions - query_positions.unsqueeze(-1)  # (query, key)
        return distance.clamp(-self.reach, self.reach) + self.reach


class Rotary(Position):
    """Queries and keys rotated by an angle proportional to their position, so that their product depends on
    the distance alone (Su et al. 2021, section 3.2). Adjacent components form the pairs that are rotated.

    Args:
        head_size: Size of queries and keys; even.
        base: Base of the frequencies.
    """

    def __init__(self, head_size: int, base: float = 10000.0) -> None:
        super().__init__()
        if head_size % 2:
            raise ValueError(f"rotary positions rotate pairs of components; the head size {head_size} is odd")
        self.head_size, self.base = head_size, base

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        check_positions(x, positions)
        steps = torch.arange(0, self.head_size, 2, dtype=torch.float64, device=x.device)
        angle = positions.unsqueeze(-1) * self.base ** (-steps / self.head_size)  # (length, size / 2)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        left, right = x[..., 0::2], x[..., 1::2]
        return torch.stack((left * cos - right * sin, left * sin + right * cos), dim=-1).flatten(-2)


class Alibi(Position):
    """A penalty on the scores, linear in the distance, with another slope in each head (Press et al. 2022)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes: Tensor
        self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        check_positions(query, query_positions)
        distance = (key_positions - query_positions.unsqueeze(-1)).abs()  # (query, key)
        return -self.slopes.to(query.dtype).view(-1, 1, 1) * distance  # (heads, query, key)


def check_positions(x: Tensor, positions: Tensor) -> None:
    """Raise ValueError unless there is one position for each vector of x (..., length, size)."""
    if len(positions) != x.size(-2):
        raise ValueError(
            f"{len(positions)} positions for {x.size(-2)} vectors; with more queries than keys, "
            "pass the positions of the queries"
        )


def alibi_slopes(heads: int) -> Tensor:
    """2^(-8/h), 2^(-16/h), ...; the paper's mixture if the number of heads is not a power of two."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    # The remaining heads: every other slope of the series for twice as many heads.
    slopes += [2 ** (-4 * i / power) for i in range(1, 2 * (heads - power), 2)]
    return torch.tensor(slopes)
