"""Text heat map: never wider than the terminal, no control characters."""

import numpy as np
import pytest
from rich.cells import cell_len

from regard.viz.terminal import printable, text_heatmap


def test_shades_match_the_weights() -> None:
    weights = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.4]])
    lines = text_heatmap(weights, ["ein", "Hund"], ["a", "dog", "!"], 80).split("\n")
    assert lines == [
        "       d",
        "       o",
        "     a g !",
        " ein ██",
        "Hund   ▓▓▒▒",
        "",
        "█ 1.00",
    ]


@pytest.mark.parametrize("width", [20, 40, 81])
@pytest.mark.parametrize("tokens", [3, 30, 200])
def test_no_line_is_wider_than_the_terminal(width: int, tokens: int) -> None:
    labels = [f"token{'🙂' if index % 7 == 0 else ''}{index}" * 3 for index in range(tokens)]
    drawn = text_heatmap(
        np.full((2, tokens), 0.5), ["Donaudampfschifffahrtsgesellschaft", "漢字"], labels, width
    )
    assert max(map(cell_len, drawn.split("\n"))) <= width
    assert drawn.count("█") - 1 in (2 * tokens, 4 * tokens)  # no weight is left out; one is the scale's


def test_wide_characters_keep_columns_aligned() -> None:
    top, first, *_ = text_heatmap(np.eye(2), ["a", "b"], ["漢", "x"], 80).split("\n")
    assert (top, first) == ("  漢x", "a ██")


def test_control_characters_are_replaced() -> None:
    assert printable("a\x1b[31mb\n\x00\u202ec🙂") == "a�[31mb���c🙂"
    assert "\x1b" not in text_heatmap(np.ones((1, 1)), ["\x1b[2J"], ["\x07\x1b]0;x\x07"], 40)


def test_all_zero_weights() -> None:
    assert "█ 1.00" in text_heatmap(np.zeros((1, 1)), ["a"], ["b"], 10)
