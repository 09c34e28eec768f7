"""Heat map of attention weights in block characters, no wider than the terminal."""

import unicodedata
from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size

SHADES = " ░▒▓█"
THRESHOLDS = (0.08, 0.3, 0.55, 0.8)
"""Lower bounds of the shades after the first, as fractions of the largest weight."""
MAX_ROW_LABEL, MAX_COLUMN_LABEL = 18, 12


def text_heatmap(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], width: int) -> str:
    """Weights (queries, keys) as shades: query labels at the left, key labels on top, written downwards.

    Columns that do not fit into `width` follow in further blocks below.
    """
    row_labels = [printable(label) for label in rows]
    column_labels = [cut(printable(label), MAX_COLUMN_LABEL) for label in columns]
    margin = min(MAX_ROW_LABEL, width // 2, max(map(cell_len, row_labels), default=0)) + 1
    has_wide = any(cell_len(letter) > 1 for label in column_labels for letter in label)
    cell = 2 if has_wide or margin + 2 * len(columns) <= width else 1
    block = max(1, (width - margin) // cell)
    largest = float(weights.max(initial=0.0)) or 1.0
    lines = []
    for first in range(0, len(columns), block):
        part = slice(first, first + block)
        lines += [" " * margin + line for line in _vertical(column_labels[part], cell)]
        lines += [
            _right_aligned(label, margin) + "".join(_shade(weight / largest) * cell for weight in row[part])
            for label, row in zip(row_labels, weights, strict=True)
        ]
        lines.append("")
    lines.append(f"{SHADES[-1]} {largest:.2f}")
    return "\n".join(line.rstrip() for line in lines)


def _shade(fraction: float) -> str:
    return SHADES[sum(fraction >= threshold for threshold in THRESHOLDS)]


def _vertical(labels: Sequence[str], cell: int) -> list[str]:
    """Labels written downwards, all ending in the last line."""
    columns = [[letter for letter in label if cell_len(letter)] for label in labels]
    height = max(map(len, columns), default=0)
    padded = [[" "] * (height - len(letters)) + letters for letters in columns]
    return ["".join(set_cell_size(letters[line], cell) for letters in padded) for line in range(height)]


def _right_aligned(label: str, margin: int) -> str:
    label = cut(label, margin - 1)
    return " " * (margin - 1 - cell_len(label)) + label + " "


def cut(label: str, max_cells: int) -> str:
    """A label of at most so many terminal cells, an ellipsis at the end of a longer one."""
    return label if cell_len(label) <= max_cells else f"{set_cell_size(label, max_cells - 1).rstrip()}…"


def printable(text: str) -> str:
    """Replaces control and format characters, which could drive the terminal or reverse its lines."""
    return "".join("�" if unicodedata.category(letter)[0] == "C" else letter for letter in text)
