"""The line colours: distinct for colour-blind readers too, and with enough contrast."""

import re
from itertools import combinations

import numpy as np
import pytest

from regard.viz import figure
from regard.viz.html_page import read_viewer_file

# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
}
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip


def variables(name: str) -> list[tuple[str, str]]:
    """The light and the dark value of every CSS variable with this beginning."""
    css = read_viewer_file("theme.css") + read_viewer_file("style.css")
    return re.findall(rf"--{name}[\w-]*: light-dark\((#\w{{6}}), (#\w{{6}})\);", css)


LIGHT, DARK = zip(*variables("head-"), strict=True)


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[index : index + 2], 16) for index in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(values: np.ndarray) -> np.ndarray:
    xyz = TO_XYZ @ values / TO_XYZ.sum(1)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(colour: str, background: str) -> float:
    low, high = sorted(TO_XYZ[1] @ linear(value) for value in (colour, background))
    return (high + 0.05) / (low + 0.05)


def test_the_simulation_confuses_what_colour_blind_readers_confuse() -> None:
    """Red and green of equal lightness; blue and purple, as figures had them."""
    blue, purple = (lab(VISION["deuteranopia"] @ linear(colour)) for colour in ("#2563a8", "#7251b5"))
    assert np.linalg.norm(blue - purple) < 5


def test_figures_and_pages_have_the_same_colours() -> None:
    assert list(LIGHT) == figure.COLOURS
    assert len(DARK) == 8


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_every_pair_of_line_colours_is_distinct(palette: tuple[str, ...], vision: str) -> None:
    seen = [lab(np.clip(VISION[vision] @ linear(colour), 0, 1)) for colour in palette]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) >= 20  # delta E, CIE 1976


def test_contrast_of_lines_and_labels() -> None:
    [(light_card, dark_card)] = variables("card")
    assert min(contrast(colour, light_card) for colour in LIGHT) >= 3  # WCAG 2.1, 1.4.11
    assert min(contrast(colour, dark_card) for colour in DARK) >= 3
    assert contrast(figure.GREY, "#ffffff") >= 4.5  # tick labels


def test_line_styles_are_distinct() -> None:
    styles = [figure.line_style(number) for number in range(40)]
    assert len({(style["color"], style["marker"]) for style in styles}) == 40
    dashes = [figure.line_style(number, marker=False) for number in range(32)]
    assert len({(style["color"], str(style["linestyle"])) for style in dashes}) == 32
    for first, second in combinations(range(5), 2):
        assert dashes[first]["linestyle"] != dashes[second]["linestyle"]
