"""The heat map in characters: never wider than the terminal, and nothing in it steers the terminal."""

import numpy as np
import pytest
from rich.cells import cell_len

from regard.viz.terminal import harmless, shaded


def test_shades_stand_where_the_weights_are() -> None:
    weights = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.4]])
    lines = shaded(weights, ["ein", "Hund"], ["a", "dog", "!"], 80).split("\n")
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
    labels = [f"token{'🙂' if place % 7 == 0 else ''}{place}" * 3 for place in range(tokens)]
    drawn = shaded(np.full((2, tokens), 0.5), ["Donaudampfschifffahrtsgesellschaft", "漢字"], labels, width)
    assert max(map(cell_len, drawn.split("\n"))) <= width
    assert drawn.count("█") - 1 in (2 * tokens, 4 * tokens)  # no weight is left out; one is the scale's


def test_labels_wider_than_a_letter_keep_the_columns_straight() -> None:
    top, first, *_ = shaded(np.eye(2), ["a", "b"], ["漢", "x"], 80).split("\n")
    assert (top, first) == ("  漢x", "a ██")


def test_what_steers_a_terminal_is_replaced() -> None:
    assert harmless("a\x1b[31mb\n\x00\u202ec🙂") == "a�[31mb���c🙂"
    assert "\x1b" not in shaded(np.ones((1, 1)), ["\x1b[2J"], ["\x07\x1b]0;x\x07"], 40)


def test_nothing_to_show_is_no_mistake() -> None:
    assert "█ 1.00" in shaded(np.zeros((1, 1)), ["a"], ["b"], 10)
