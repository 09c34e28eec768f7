"""Pictures that a model painted: a row for each prompt."""

import base64
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from regard.viz.figure import canvas, save_as, save_into
from regard.viz.terminal import cut, harmless

LONGEST_PROMPT = 28
"""Letters of a prompt beside its row; longer ones are cut."""


@dataclass(frozen=True, eq=False)
class GeneratedImages:
    """What was painted; it shows itself in a notebook."""

    prompts: list[str]
    pictures: np.ndarray  # (prompts, each, height, width), black is 0 and white 1
    seconds: float
    """It took."""

    def figure(self) -> Figure:
        """A grid, a row for each prompt."""
        return draw_grid(self.prompts, self.pictures)

    def save(self, path: str | Path) -> Path:
        """Write the grid as .png or .svg."""
        return save_as(self.figure(), Path(path))

    def _repr_html_(self) -> str:
        file = io.BytesIO()
        save_into(self.figure(), file, "png")
        told = harmless(", ".join(self.prompts)).replace('"', "&quot;").replace("<", "&lt;")
        return f'<img alt="{told}" src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'


def draw_grid(prompts: list[str], pictures: np.ndarray, inches: float = 0.62) -> Figure:
    """Pictures (rows, columns, height, width), white on black, their prompts at the left."""
    rows, columns, height, width = pictures.shape
    gap = 2
    sheet = np.ones((rows * (height + gap) - gap, columns * (width + gap) - gap), pictures.dtype)
    for row in range(rows):
        for column in range(columns):
            top, left = row * (height + gap), column * (width + gap)
            sheet[top : top + height, left : left + width] = pictures[row, column]
    beside = 0.3 + 0.07 * max(min(LONGEST_PROMPT, len(prompt)) for prompt in prompts)
    figure, (axes,) = canvas(width=beside + inches * columns + 0.2, height=inches * rows * height / width + 0.2)
    axes.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    places = [row * (height + gap) + height / 2 - 0.5 for row in range(rows)]
    names = [cut(harmless(prompt), LONGEST_PROMPT) for prompt in prompts]
    axes.set_yticks(places, names, parse_math=False)
    axes.set_xticks([])
    axes.tick_params(length=0)
    for edge in axes.spines.values():
        edge.set_visible(False)
    return figure
