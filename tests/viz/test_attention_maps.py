"""Attention maps: joining subwords, JSON round trip, malformed files, and entropy, distance and rollout by formula."""

import json
import math

import numpy as np
import pytest
from support import attention_examples

from regard.errors import RegardError
from regard.viz.analysis import distance, entropy, layer_title, rollout
from regard.viz.attention_maps import AttentionMaps, Layer, TokenSequence
from regard.viz.html_page import attention_page


def test_joining_subwords_sums_keys_and_averages_queries() -> None:
    joined = attention_examples.small().in_words()
    cross = joined.layers["decoder.0.cross"]
    assert cross.queries.tokens == ("the", "grasshopper", "sleeps", "</s>")
    assert cross.shape == (2, 4, 4)
    np.testing.assert_allclose(
        cross.weights[0], [[0.9, 0.1, 0, 0], [0, 1.0, 0, 0], [0, 0, 1, 0], [0, 0, 0.25, 0.75]], atol=1e-6
    )
    # reversed: grass attends with (0, 0, .2, .8, 0), hopper with (0, 0, .7, .3, 0)
    np.testing.assert_allclose(cross.weights[1, 1], [0, 0.45, 0.55, 0], atol=1e-6)


def test_labels_have_no_subword_markers() -> None:
    assert attention_examples.SOURCE.labels == ["Der", "Gras", "·hüpfer", "schläft", "</s>"]
    pieces = TokenSequence("s", "", ("play", "##ing", "▁"), ("playing", "▁"), ((0, 1), (2,)))
    assert pieces.labels == ["play", "·ing", "▁"]


def test_unknown_tokens_are_labelled_as_they_are_spelled() -> None:
    spelled = TokenSequence("s", "Trump's", ("▁<unk>", "##'", "s"), ("Trump's",), ((0, 1, 2),), ((0, "Trump"),))
    assert spelled.labels == ["Trump", "·'", "·s"]
    assert spelled.in_words().unknown == ((0, "Trump's"),)
    maps = AttentionMaps(
        spelled, spelled, {"encoder.0.self": Layer(spelled, spelled, np.full((1, 3, 3), 1 / 3))}
    )
    content = json.loads(json.dumps(maps.as_json()))
    assert AttentionMaps.from_json(content).input == spelled
    del content["sides"][0]["unknown"]  # as in files of older releases
    assert AttentionMaps.from_json(content).input.unknown == ()


def test_alignment_takes_the_last_cross_attention_but_one() -> None:
    read = attention_examples.SOURCE
    heads = {f"decoder.{n}.cross": Layer(read, read, np.full((2, 5, 5), n / 10)) for n in range(3)}
    assert AttentionMaps(read, read, heads).alignment() == pytest.approx(0.1)
    with pytest.raises(RegardError, match="no attention"):
        AttentionMaps(read, read, {}).alignment()
    with pytest.raises(RegardError, match="no attention"):
        attention_page(AttentionMaps(read, read, {}))
    encoder = AttentionMaps(read, read, {"encoder.0.self": heads["decoder.0.cross"]})
    with pytest.raises(RegardError, match="no cross-attention"):
        encoder.alignment()
    assert '"name":"encoder.rollout"' in attention_page(encoder)  # such a model still has a page


def test_json_round_trip() -> None:
    maps = attention_examples.small()
    text = json.dumps(maps.as_json())
    again = AttentionMaps.from_json(json.loads(text))
    assert (again.input, again.output, list(again.layers)) == (maps.input, maps.output, list(maps.layers))
    for name, layer in maps.layers.items():
        assert (again.layers[name].queries, again.layers[name].keys) == (layer.queries, layer.keys)
        np.testing.assert_allclose(again.layers[name].weights, layer.weights, atol=5e-5)
    assert len(maps.as_json()["sides"]) == 2
    assert "0.9," in text  # rounded, not 0.8999999


def broken(change) -> dict:
    content = attention_examples.small().as_json()
    change(content)
    return content


MALFORMED = [
    ([], "format"),
    ({"format": "other"}, "format"),
    (broken(lambda c: c.update(version=2)), "version is 2"),
    (broken(lambda c: c.update(sides={})), "sides is not a list"),
    (broken(lambda c: c.update(read=7)), "read is 7"),
    (broken(lambda c: c.update(read=True)), "read is True"),
    (broken(lambda c: c.update(layers=[])), "layers is not an object"),
    (broken(lambda c: c["sides"][0].update(tokens=["a"])), r"sides\[0\]: groups"),
    (broken(lambda c: c["sides"][0].update(tokens=[1, 2])), "is not a string"),
    (broken(lambda c: c["sides"][0].update(groups=[0, 1])), "lists of positions"),
    (broken(lambda c: c["sides"][1].update(text=None)), "name and text"),
    (broken(lambda c: c["sides"][1].update(unknown=[[9, "x"]])), "pairs of a position and a spelling"),
    (broken(lambda c: c["sides"][1].update(unknown=7)), "unknown is not a list"),
    (broken(lambda c: c["layers"].update({"x": 1})), r"layers\['x'\] is not an object"),
    (broken(lambda c: c["layers"]["encoder.0.self"].update(weights=[[1, 2], [3]])), "not an array"),
    (broken(lambda c: c["layers"]["encoder.0.self"].update(weights=[[[1.0]]])), r"\(heads, 5, 5\)"),
    (broken(lambda c: c["layers"]["encoder.0.self"]["weights"][0][0].__setitem__(0, float("nan"))), "between 0 and 1"),
    (broken(lambda c: c["layers"]["encoder.0.self"]["weights"][0][0].__setitem__(0, 1.5)), "between 0 and 1"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), MALFORMED, ids=[message for _, message in MALFORMED])
def test_malformed_files_are_refused(content, message: str) -> None:
    with pytest.raises(
        RegardError, match=rf"not an attention file written by `regard look -o FILE\.json`: .*{message}"
    ):
        AttentionMaps.from_json(content)


def test_entropy_by_its_formula() -> None:
    weights = attention_examples.small().layers["decoder.0.cross"].weights
    expected = np.mean(
        [-sum(w * math.log2(w) for w in row if w > 0) for row in attention_examples.DIAGONAL.tolist()]
    )
    np.testing.assert_allclose(entropy(weights), [expected, expected], rtol=1e-5)
    assert entropy(np.full((1, 2, 8), 1 / 8)) == pytest.approx(3.0)
    assert entropy(np.zeros((1, 2, 3))) == pytest.approx(0.0)  # a fully masked query


def test_distance_by_its_formula() -> None:
    weights = attention_examples.small().layers["decoder.0.cross"].weights
    for head, matrix in enumerate(weights.tolist()):
        expected = np.mean([sum(w * abs(i - j) for j, w in enumerate(row)) for i, row in enumerate(matrix)])
        assert distance(weights)[head] == pytest.approx(expected, rel=1e-5)
    across = np.zeros((1, 3, 5))
    across[0, [0, 1, 2], [0, 2, 4]] = 1.0  # on the diagonal, though one side is longer
    assert distance(across)[0] == 0.0


def test_rollout_by_its_formula() -> None:
    maps = attention_examples.random(tokens=6, layers=3, heads=4)
    product = np.eye(6)
    for number in range(3):
        mean = maps.layers[f"encoder.{number}.self"].weights.mean(0)
        product = (0.5 * mean + 0.5 * np.eye(6)) @ product
    rollouts = rollout(maps)
    assert list(rollouts) == ["encoder.rollout"]  # the decoder also attends to the encoder
    np.testing.assert_allclose(rollouts["encoder.rollout"].weights[0], product, atol=1e-6)
    np.testing.assert_allclose(rollouts["encoder.rollout"].weights.sum(-1), 1.0, atol=1e-5)


def test_notebook_shows_the_page_in_an_iframe() -> None:
    shown = attention_examples.small()._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script>" not in shown  # escaped within the attribute
    assert "&lt;script&gt;" in shown


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("decoder.0.cross", "Decoder layer 1 · cross-attention"),
        ("encoder.11.self", "Encoder layer 12 · self-attention"),
        ("decoder.cross", "Decoder · cross-attention"),
        ("encoder.rollout", "Encoder · rollout over all layers"),
        ("down.1.0.self", "down.1.0.self"),
    ],
)
def test_titles_of_layers(name: str, title: str) -> None:
    assert layer_title(name) == title
