"""The payload: words joined from tokens, JSON there and back, strangers' files, and numbers by their formulas."""

import json
import math

import numpy as np
import pytest
from support import made_by_hand

from regard.errors import RegardError
from regard.viz.measures import distance, entropy, rollout
from regard.viz.page import page
from regard.viz.payload import AttentionMaps, Layer, Side


def test_joining_sums_what_a_word_gets_and_averages_how_it_looks() -> None:
    joined = made_by_hand.small().in_words()
    cross = joined.layers["decoder.0.cross"]
    assert cross.left.tokens == ("the", "grasshopper", "sleeps", "</s>")
    assert cross.shape == (2, 4, 4)
    np.testing.assert_allclose(
        cross.weights[0], [[0.9, 0.1, 0, 0], [0, 1.0, 0, 0], [0, 0, 1, 0], [0, 0, 0.25, 0.75]], atol=1e-6
    )
    # turned: grass looks at (0, 0, .2, .8, 0), hopper at (0, 0, .7, .3, 0)
    np.testing.assert_allclose(cross.weights[1, 1], [0, 0.45, 0.55, 0], atol=1e-6)


def test_labels_are_bare_at_a_words_start() -> None:
    assert made_by_hand.READ.labels == ["Der", "Gras", "·hüpfer", "schläft", "</s>"]
    pieces = Side("s", "", ("play", "##ing", "▁"), ("playing", "▁"), ((0, 1), (2,)))
    assert pieces.labels == ["play", "·ing", "▁"]


def test_alignment_takes_the_last_cross_attention_but_one() -> None:
    read = made_by_hand.READ
    heads = {f"decoder.{n}.cross": Layer(read, read, np.full((2, 5, 5), n / 10)) for n in range(3)}
    assert AttentionMaps(read, read, heads).alignment() == pytest.approx(0.1)
    with pytest.raises(RegardError, match="no attention"):
        AttentionMaps(read, read, {}).alignment()
    with pytest.raises(RegardError, match="no attention"):
        page(AttentionMaps(read, read, {}))
    encoder = AttentionMaps(read, read, {"encoder.0.self": heads["decoder.0.cross"]})
    with pytest.raises(RegardError, match="no cross-attention"):
        encoder.alignment()
    assert '"name":"encoder.rollout"' in page(encoder)  # such a model has a page all the same


def test_json_there_and_back() -> None:
    maps = made_by_hand.small()
    text = json.dumps(maps.as_json())
    again = AttentionMaps.from_json(json.loads(text))
    assert (again.read, again.written, list(again.layers)) == (maps.read, maps.written, list(maps.layers))
    for name, layer in maps.layers.items():
        assert (again.layers[name].left, again.layers[name].right) == (layer.left, layer.right)
        np.testing.assert_allclose(again.layers[name].weights, layer.weights, atol=5e-5)
    assert len(maps.as_json()["sides"]) == 2
    assert "0.9," in text  # rounded, not 0.8999999


def broken(change) -> dict:
    content = made_by_hand.small().as_json()
    change(content)
    return content


STRANGERS = [
    ([], "format"),
    ({"format": "other"}, "format"),
    (broken(lambda c: c.update(version=2)), "version is 2"),
    (broken(lambda c: c.update(sides={})), "sides are not a list"),
    (broken(lambda c: c.update(read=7)), "read is 7"),
    (broken(lambda c: c.update(read=True)), "read is True"),
    (broken(lambda c: c.update(layers=[])), "layers are not named"),
    (broken(lambda c: c["sides"][0].update(tokens=["a"])), r"sides\[0\]: groups"),
    (broken(lambda c: c["sides"][0].update(tokens=[1, 2])), "is no string"),
    (broken(lambda c: c["sides"][0].update(groups=[0, 1])), "lists of places"),
    (broken(lambda c: c["sides"][1].update(text=None)), "name and text"),
    (broken(lambda c: c["layers"].update({"x": 1})), "'x' is no object"),
    (broken(lambda c: c["layers"]["encoder.0.self"].update(weights=[[1, 2], [3]])), "no array"),
    (broken(lambda c: c["layers"]["encoder.0.self"].update(weights=[[[1.0]]])), r"\(heads, 5, 5\)"),
    (broken(lambda c: c["layers"]["encoder.0.self"]["weights"][0][0].__setitem__(0, float("nan"))), "between 0 and 1"),
    (broken(lambda c: c["layers"]["encoder.0.self"]["weights"][0][0].__setitem__(0, 1.5)), "between 0 and 1"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "words"), STRANGERS, ids=[words for _, words in STRANGERS])
def test_a_strangers_file_is_refused_with_a_sentence(content, words: str) -> None:
    with pytest.raises(RegardError, match=rf"this is not what `regard look -o looked\.json` writes: .*{words}"):
        AttentionMaps.from_json(content)


def test_entropy_by_its_formula() -> None:
    weights = made_by_hand.small().layers["decoder.0.cross"].weights
    expected = np.mean([-sum(w * math.log2(w) for w in row if w > 0) for row in made_by_hand.SHARP.tolist()])
    np.testing.assert_allclose(entropy(weights), [expected, expected], rtol=1e-5)
    assert entropy(np.full((1, 2, 8), 1 / 8)) == pytest.approx(3.0)
    assert entropy(np.zeros((1, 2, 3))) == pytest.approx(0.0)  # a query that may see nothing


def test_distance_by_its_formula() -> None:
    weights = made_by_hand.small().layers["decoder.0.cross"].weights
    for head, matrix in enumerate(weights.tolist()):
        expected = np.mean([sum(w * abs(i - j) for j, w in enumerate(row)) for i, row in enumerate(matrix)])
        assert distance(weights)[head] == pytest.approx(expected, rel=1e-5)
    across = np.zeros((1, 3, 5))
    across[0, [0, 1, 2], [0, 2, 4]] = 1.0  # straight across, though one side is longer
    assert distance(across)[0] == 0.0


def test_rollout_by_its_formula() -> None:
    maps = made_by_hand.random(tokens=6, layers=3, heads=4)
    product = np.eye(6)
    for number in range(3):
        mean = maps.layers[f"encoder.{number}.self"].weights.mean(0)
        product = (0.5 * mean + 0.5 * np.eye(6)) @ product
    found = rollout(maps)
    assert list(found) == ["encoder.rollout"]  # the decoder has what it has from the encoder, too
    np.testing.assert_allclose(found["encoder.rollout"].weights[0], product, atol=1e-6)
    np.testing.assert_allclose(found["encoder.rollout"].weights.sum(-1), 1.0, atol=1e-5)


def test_a_notebook_shows_the_page_in_a_frame() -> None:
    shown = made_by_hand.small()._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script>" not in shown  # escaped: it belongs to the frame
    assert "&lt;script&gt;" in shown
