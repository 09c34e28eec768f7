"""Pictures of heads: a panel each, the tokens at the edges as they are written."""

import xml.dom.minidom
from pathlib import Path

import numpy as np
import pytest
from support import made_by_hand

from regard.viz.figure import MOST_WORDS, save_as, ticks
from regard.viz.heads import draw_heads, draw_matrix
from regard.viz.payload import Layer, Side


@pytest.mark.parametrize(("heads", "panels"), [(1, 1), (2, 2), (4, 4), (6, 6)])
def test_every_head_has_a_panel(heads: int, panels: int) -> None:
    layer = made_by_hand.small().layers["decoder.0.cross"]
    weights = np.repeat(layer.weights[:1], heads, axis=0)
    figure = draw_heads(Layer(layer.left, layer.right, weights), "decoder.0.cross")
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == panels
    assert shown[-1].get_title(loc="left") == f"decoder.0.cross, head {heads - 1}"
    assert [each.get_text() for each in shown[0].get_yticklabels()] == layer.left.labels


def test_a_matrix_names_both_its_sides() -> None:
    layer = made_by_hand.small().layers["decoder.0.cross"]
    axes = draw_matrix(layer.weights[0], layer, "head").axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("source", "translation")
    np.testing.assert_allclose(np.asarray(axes.images[0].get_array()), made_by_hand.SHARP, atol=1e-6)


def test_any_token_can_be_written_on_a_picture(tmp_path: Path) -> None:
    side = Side.of_words("source", "", ["$x$", "$\\frac$", "\x00\x1b", "<b>&", "]]>"])
    picture = save_as(draw_matrix(np.eye(5), Layer(side, side, np.eye(5)[None]), "any"), tmp_path / "any.svg")
    text = picture.read_text("utf-8")
    assert xml.dom.minidom.parseString(text).documentElement.tagName == "svg"
    assert "$\\frac$" in text


def test_more_words_than_can_be_read_are_thinned_out() -> None:
    assert ticks(["a", "b"]) == ([0, 1], ["a", "b"])
    places, words = ticks([str(place) for place in range(500)])
    assert len(words) <= MOST_WORDS
    assert words == [str(place) for place in places]
