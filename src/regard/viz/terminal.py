"""A heat map in characters, as wide as the terminal and no wider."""

import unicodedata
from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size

SHADES = " ░▒▓█"
STEPS = (0.08, 0.3, 0.55, 0.8)
"""Of the strongest weight, from where on a shade is used."""
LONGEST_ROW_LABEL, LONGEST_COLUMN_LABEL = 18, 12


def shaded(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], width: int) -> str:
    """Weights (left, right) as shades, the left tokens beside, the right ones on top from top to bottom.

    Columns for which there is no room follow in a block below.
    """
    beside = [harmless(label) for label in rows]
    on_top = [cut(harmless(label), LONGEST_COLUMN_LABEL) for label in columns]
    margin = min(LONGEST_ROW_LABEL, width // 2, max(map(cell_len, beside), default=0)) + 1
    wide = any(cell_len(letter) > 1 for label in on_top for letter in label)
    cell = 2 if wide or margin + 2 * len(columns) <= width else 1
    block = max(1, (width - margin) // cell)
    most = float(weights.max(initial=0.0)) or 1.0
    lines = []
    for first in range(0, len(columns), block):
        part = slice(first, first + block)
        lines += [" " * margin + line for line in standing(on_top[part], cell)]
        lines += [
            sized(label, margin) + "".join(shade(weight / most) * cell for weight in row[part])
            for label, row in zip(beside, weights, strict=True)
        ]
        lines.append("")
    lines.append(f"{SHADES[-1]} {most:.2f}")
    return "\n".join(line.rstrip() for line in lines)


def shade(part: float) -> str:
    return SHADES[sum(part >= step for step in STEPS)]


def standing(labels: Sequence[str], cell: int) -> list[str]:
    """Labels written downwards, all ending in the last line."""
    columns = [[letter for letter in label if cell_len(letter)] for label in labels]
    height = max(map(len, columns), default=0)
    padded = [[" "] * (height - len(letters)) + letters for letters in columns]
    return ["".join(set_cell_size(letters[line], cell) for letters in padded) for line in range(height)]


def sized(label: str, margin: int) -> str:
    """Flush right before the shades."""
    label = cut(label, margin - 1)
    return " " * (margin - 1 - cell_len(label)) + label + " "


def cut(label: str, most: int) -> str:
    return label if cell_len(label) <= most else f"{set_cell_size(label, most - 1).rstrip()}…"


def harmless(text: str) -> str:
    """Text that only shows: what would steer a terminal, or turn its lines around, is replaced."""
    return "".join("�" if unicodedata.category(letter)[0] == "C" else letter for letter in text)
