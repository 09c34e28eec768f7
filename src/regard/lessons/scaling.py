"""Why dot products are divided by sqrt(d): without it the softmax saturates and its gradient vanishes.

Queries and keys have independent components of variance 1, so q.k has variance d. The larger d is, the
larger the differences between scores, until one key gets all the weight (Vaswani et al. 2017, section 3.2.1).
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard.lessons import Table
from regard.nn import Dot, ScaledDot, Score
from regard.viz.figure import GREY, canvas, label, legend, line_style

SIZES = tuple(2**power for power in range(11))
"""1, 2, 4 ... 1024."""

QUERIES_PER_SET = 8
"""Queries that share keys, as the words of a sentence do."""

CHUNK = 2**22
"""Approximate number of values drawn at a time: 16 MB of keys, where all of them may be gigabytes."""


@dataclass(frozen=True)
class Measurement:
    """One score at one size d, over many queries with the same number of keys."""

    size: int
    variance: float
    """Of the scores."""
    entropy: float
    """Of the weights, in nats, mean over the queries."""
    entropy_share: float
    """The entropy as a fraction of log(keys), the entropy of uniform weights."""
    largest: float
    """The largest weight, mean over the queries."""
    slope: float
    """s(1 - s), mean over keys and queries: the derivative of a weight by its own score."""
    jacobian: float
    """Frobenius norm of the softmax's Jacobian, median over the queries."""


@dataclass(frozen=True)
class Scaling:
    """Measurements with and without 1 / sqrt(d), one per size."""

    keys: int
    draws: int
    seed: int
    dot: tuple[Measurement, ...]
    scaled: tuple[Measurement, ...]

    def tables(self) -> list[Table]:
        columns = ("d", "variance", "entropy", "of log n", "largest", "s(1-s)", "|Jacobian|")
        setting = f"softmax over {self.keys} keys, {self.draws} queries"
        return [
            Table(f"q.k: {setting}", columns, tuple(map(cells, self.dot))),
            Table(f"q.k / sqrt(d): {setting}", columns, tuple(map(cells, self.scaled))),
        ]

    def finding(self) -> str:
        dot, scaled = self.dot[-1], self.scaled[-1]
        shares = [row.entropy_share for row in self.scaled]
        return (
            f"At d = {dot.size} the plain dot product has variance {dot.variance:.0f}: the softmax has "
            f"{dot.entropy_share:.0%} of the entropy of uniform weights, and a typical gradient of "
            f"{dot.jacobian:.1g}; divided by sqrt(d) it has {min(shares):.0%} to {max(shares):.0%} at every d, "
            f"and a typical gradient of {scaled.jacobian:.1g}."
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(sizes: Sequence[int] = SIZES, *, keys: int = 64, draws: int = 4096, seed: int = 0) -> Scaling:
    """Draw `draws` queries with `keys` keys each at every size, and score them with and without the scale."""
    dot, scaled = [], []
    for size in sizes:
        generator = torch.Generator().manual_seed(seed)
        plain_scores, scaled_scores = draw_scores((Dot(), ScaledDot()), size, keys, draws, generator)
        dot.append(describe(plain_scores, size))
        scaled.append(describe(scaled_scores, size))
    return Scaling(keys, draws, seed, tuple(dot), tuple(scaled))


def draw_scores(
    scores: Sequence[Score], size: int, keys: int, draws: int, generator: torch.Generator
) -> list[Tensor]:
    """The same random queries and keys under each score: (draws, keys) each, in float64."""
    groups: list[list[Tensor]] = [[] for _ in scores]
    sets = math.ceil(draws / QUERIES_PER_SET)
    many = max(1, CHUNK // (keys * size))
    for start in range(0, sets, many):
        group = min(many, sets - start)
        query = torch.randn(group, QUERIES_PER_SET, size, generator=generator)
        key = torch.randn(group, keys, size, generator=generator)
        for score, parts in zip(scores, groups, strict=True):
            parts.append(score(query, key).flatten(0, 1).double())
    return [torch.cat(parts)[:draws] for parts in groups]


def describe(scores: Tensor, size: int) -> Measurement:
    """Statistics of the softmax of scores (draws, keys)."""
    weights = torch.softmax(scores, dim=-1)
    entropy = -torch.xlogy(weights, weights).sum(-1).mean().item()
    return Measurement(
        size=size,
        variance=scores.var().item(),
        entropy=entropy,
        entropy_share=entropy / math.log(scores.size(-1)),
        largest=weights.amax(-1).mean().item(),
        slope=(weights * (1 - weights)).mean().item(),
        jacobian=jacobian_norm(weights).median().item(),
    )


def jacobian_norm(weights: Tensor) -> Tensor:
    """Frobenius norm of diag(s) - s s^T for weights s (..., keys): (...)."""
    # the diagonal s(1 - s) and the rest -s_i s_j separately: their sum cancels when one s is near 1
    squares = weights.square()
    diagonal = (weights * (1 - weights)).square().sum(-1)
    rest = (squares * (squares.sum(-1, keepdim=True) - squares)).sum(-1)
    return (diagonal + rest).sqrt()


def cells(row: Measurement) -> tuple[str, ...]:
    return (
        str(row.size),
        f"{row.variance:.3g}" if row.variance < 100 else f"{row.variance:.0f}",
        f"{row.entropy:.3f}",
        f"{row.entropy_share:.1%}",
        f"{row.largest:.3f}",
        f"{row.slope:.1e}",
        f"{row.jacobian:.1e}",
    )


def draw(result: Scaling) -> Figure:
    """Entropy and the two gradients against d, with and without the scale."""
    figure, (entropy, slope, jacobian) = canvas(3, width=4.4)
    label(entropy, "Entropy of the weights", "d", f"nats (log {result.keys} = {math.log(result.keys):.2f})")
    lines(entropy, result, "entropy")
    entropy.axhline(math.log(result.keys), color=GREY, linestyle=":", linewidth=1)
    entropy.set_ylim(bottom=0)
    label(slope, "Gradient of one weight", "d", "s(1 - s), mean")
    lines(slope, result, "slope")
    slope.set_yscale("log")
    label(jacobian, "Gradient of all weights", "d", "norm of the Jacobian, median")
    lines(jacobian, result, "jacobian")
    jacobian.set_yscale("log")
    for axes in (entropy, slope, jacobian):
        legend(axes)
    return figure


def lines(axes: Axes, result: Scaling, field: str) -> None:
    """One field against d: the plain dot product and the scaled one."""
    for number, (name, series) in enumerate((("q.k", result.dot), ("q.k / sqrt(d)", result.scaled))):
        values = [getattr(row, field) for row in series]
        axes.plot([row.size for row in series], values, label=name, **line_style(number))
    axes.set_xscale("log", base=2)
    axes.grid(True)
