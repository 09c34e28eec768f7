"""Why sines and cosines encode positions: they count like bits, but smoothly.

The first pair of dimensions has the highest frequency, as the lowest bit flips at every step; each later pair
has a lower one. The product of two encodings depends on their distance only (Vaswani et al. 2017, section 3.5).
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.lessons import Table
from regard.nn.positions import sinusoids
from regard.viz.figure import canvas, heat, label


@dataclass(frozen=True)
class Positions:
    """The encoding, the same positions as bits, and the similarity of positions."""

    length: int
    d_model: int
    encoding: Tensor  # (length, d_model), float64
    bits: Tensor  # (length, bits), the lowest bit first
    similarity: tuple[float, ...]
    """PE(pos) . PE(pos + k) / (d_model / 2) for k = 0, 1, 2 ...: 1 where they are equal."""
    spread: float
    """The largest difference between similarities at the same distance."""
    loop_difference: float
    """The largest difference between the formula in a loop and the exponent form."""
    rotation_difference: float
    """The largest difference between step-wise rotation and the exponent form."""

    def tables(self) -> list[Table]:
        distances = [0, *(2**power for power in range(self.length.bit_length()) if 2**power < self.length)]
        return [
            Table(
                f"Three ways to one encoding, {self.length} positions of {self.d_model} dimensions",
                ("way", "largest difference"),
                (
                    ("exp(-2i log(10000) / d), all at once", "the reference"),
                    ("sin(pos / 10000^(2i/d)) in a loop", f"{self.loop_difference:.1e}"),
                    ("PE(pos + 1) from PE(pos) by rotations", f"{self.rotation_difference:.1e}"),
                ),
            ),
            Table(
                "Similarity of two positions by distance",
                ("distance", "similarity"),
                tuple((str(distance), f"{self.similarity[distance]:.3f}") for distance in distances),
            ),
            Table(
                "Period of the dimensions, in positions",
                ("dimensions", "sinusoid", "bit of the same rank"),
                tuple(period(rank, self.d_model) for rank in range(self.bits.size(1))),
            ),
        ]

    def finding(self) -> str:
        worst = max(self.loop_difference, self.rotation_difference)
        return (
            f"The three ways differ by at most {worst:.0e}; the frequencies fall from left to right like those "
            f"of a counter's bits, and the similarity of two positions depends on their distance only (to "
            f"{self.spread:.0e}): {self.similarity[1]:.2f} for neighbours, {self.similarity[-1]:.2f} at "
            f"distance {self.length - 1}."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "length": self.length,
            "d_model": self.d_model,
            "largest_difference": {"loop": self.loop_difference, "rotation": self.rotation_difference},
            "similarity": list(self.similarity),
            "similarity_spread": self.spread,
            "encoding": self.encoding.tolist(),
            "bits": self.bits.tolist(),
        }


def compute(length: int = 64, d_model: int = 64) -> Positions:
    """Encode `length` positions in the three ways and in bits, and compare them; all in float64."""
    if length < 2:
        raise ValueError(f"positions are compared with each other: at least 2 are needed, not {length}")
    encoding = sinusoids(length, d_model, torch.float64)
    similarity, spread = by_distance(encoding)
    return Positions(
        length=length,
        d_model=d_model,
        encoding=encoding,
        bits=binary_digits(length),
        similarity=similarity,
        spread=spread,
        loop_difference=largest_difference(by_formula(length, d_model), encoding),
        rotation_difference=largest_difference(by_rotation(length, d_model), encoding),
    )


def by_formula(length: int, d_model: int) -> Tensor:
    """The paper's formula, number by number: (length, d_model)."""
    table = [[0.0] * d_model for _ in range(length)]
    for position in range(length):
        for pair in range(d_model // 2):
            angle = position / 10000 ** (2 * pair / d_model)
            table[position][2 * pair] = math.sin(angle)
            table[position][2 * pair + 1] = math.cos(angle)
    return torch.tensor(table, dtype=torch.float64)


def by_rotation(length: int, d_model: int) -> Tensor:
    """Each position from the one before: every pair (sin, cos) rotated by its own fixed angle."""
    angle = 10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)  # (d_model / 2,)
    turn_cos, turn_sin = angle.cos(), angle.sin()
    sin, cos = torch.zeros_like(angle), torch.ones_like(angle)  # position 0
    rows = []
    for _ in range(length):
        rows.append(torch.stack((sin, cos), dim=-1).flatten())
        sin, cos = sin * turn_cos + cos * turn_sin, cos * turn_cos - sin * turn_sin
    return torch.stack(rows)


def largest_difference(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


def binary_digits(length: int) -> Tensor:
    """Positions in binary, the lowest bit first: (length, bits) of 0 and 1."""
    bits = max(1, (length - 1).bit_length())
    return torch.arange(length).unsqueeze(1) >> torch.arange(bits) & 1


def by_distance(encoding: Tensor) -> tuple[tuple[float, ...], float]:
    """Mean similarity at each distance, and the largest difference within one distance."""
    length, d_model = encoding.shape
    product = encoding @ encoding.T / (d_model / 2)  # (position, position)
    diagonals = [product.diagonal(distance) for distance in range(length)]
    spread = max((diagonal.max() - diagonal.min()).item() for diagonal in diagonals)
    return tuple(diagonal.mean().item() for diagonal in diagonals), spread


def period(rank: int, d_model: int) -> tuple[str, str, str]:
    """The period of a pair of dimensions, and of the bit of the same rank."""
    wave = f"{2 * math.pi * 10000 ** (2 * rank / d_model):.1f}" if 2 * rank < d_model else "-"
    return f"{2 * rank}, {2 * rank + 1}", wave, f"bit {rank}: {2 ** (rank + 1)}"


def draw(result: Positions) -> Figure:
    """The encoding next to the bits, and the similarity of positions by distance."""
    figure, (waves, bits, similarity) = canvas(3, width=4.6, height=4.2)
    label(waves, "Sinusoidal encoding", "dimension", "position")
    heat(waves, result.encoding.numpy(), low=-1.0, high=1.0, colours="RdBu_r")
    label(bits, "The same positions as bits", "bit, the lowest first", "position")
    names = [str(bit) for bit in range(result.bits.size(1))]
    heat(bits, result.bits.numpy(), high=1.0, bar=False)
    bits.set_xticks(range(len(names)), names)
    label(
        similarity, "Similarity by distance", "distance between two positions", "PE(pos) . PE(pos + k) / (d/2)"
    )
    distances = [*range(1 - result.length, result.length)]
    similarity.plot(distances, [result.similarity[abs(distance)] for distance in distances])
    similarity.set_ylim(top=1.05)
    similarity.grid(True)
    return figure
