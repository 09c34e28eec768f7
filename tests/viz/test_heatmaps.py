"""Heat maps of heads: one panel per head, tokens as tick labels."""

import xml.dom.minidom
from pathlib import Path

import numpy as np
import pytest
from support import attention_examples

from regard.viz.attention_maps import Layer, TokenSequence
from regard.viz.figure import MAX_LABELS, save_as, ticks
from regard.viz.heatmaps import draw_heads, draw_matrix


@pytest.mark.parametrize(("heads", "panels"), [(1, 1), (2, 2), (4, 4), (6, 6)])
def test_every_head_has_a_panel(heads: int, panels: int) -> None:
    layer = attention_examples.small().layers["decoder.0.cross"]
    weights = np.repeat(layer.weights[:1], heads, axis=0)
    figure = draw_heads(Layer(layer.queries, layer.keys, weights), "decoder.0.cross")
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == panels
    assert shown[-1].get_title(loc="left") == f"decoder.0.cross, head {heads - 1}"
    assert [tick.get_text() for tick in shown[0].get_yticklabels()] == layer.queries.labels


def test_axes_are_named_after_queries_and_keys() -> None:
    layer = attention_examples.small().layers["decoder.0.cross"]
    axes = draw_matrix(layer.weights[0], layer, "head").axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("source", "translation")
    np.testing.assert_allclose(np.asarray(axes.images[0].get_array()), attention_examples.DIAGONAL, atol=1e-6)


def test_any_token_is_a_valid_tick_label(tmp_path: Path) -> None:
    side = TokenSequence.of_words("source", "", ["$x$", "$\\frac$", "\x00\x1b", "<b>&", "]]>"])
    picture = save_as(draw_matrix(np.eye(5), Layer(side, side, np.eye(5)[None]), "any"), tmp_path / "any.svg")
    text = picture.read_text("utf-8")
    assert xml.dom.minidom.parseString(text).documentElement.tagName == "svg"
    assert "$\\frac$" in text


def test_at_most_max_labels_are_drawn() -> None:
    assert ticks(["a", "b"]) == ([0, 1], ["a", "b"])
    positions, words = ticks([str(position) for position in range(500)])
    assert len(words) <= MAX_LABELS
    assert words == [str(position) for position in positions]
