"""Players take turns, absent ones are told, and rows say what was compared with what."""

import json

import pytest
from regard.bench import decoding, training
from regard.bench.turns import Player, Row, as_json, measured, rows_of, show

from regard.config import TransformerModel


@pytest.mark.slow
def test_players_take_turns_and_an_absent_one_says_why() -> None:
    with (
        Player("regard.bench.training", "peak") as peak,
        Player("regard.bench.training", "marian", "tiny") as peer,
    ):
        found = measured({"peak": peak, "peer": peer}, 1)
        assert found["peak"] > 0.1
        if peer.absent:
            assert "transformers" in peer.absent
            assert "peer" not in found
        else:
            assert found["peer"] > 0


def test_rows() -> None:
    rows = rows_of("case", {"ours": 6.0, "one": 3.0, "other": 12.0})
    assert rows == [Row("case", 6.0, "one", 3.0, 2.0), Row("case", 6.0, "other", 12.0, 0.5)]
    assert rows_of("case", {"ours": 6.0}) == [Row("case", 6.0, "", 0.0, 0.0)]
    assert set(json.loads(as_json(rows))[0]) == {"case", "ours", "peer", "value", "ratio"}
    assert "2.00" in show(rows, "a second")


def test_operations_are_those_of_the_products() -> None:
    """Six a weight and token: two forward, four back; embeddings are looked up, not multiplied."""
    config = TransformerModel(size="tiny", encoder_layers=1, decoder_layers=1, d_model=8, heads=2, d_ff=16)
    encoder, decoder = 4 * 8 * 8 + 2 * 8 * 16, 8 * 8 * 8 + 2 * 8 * 16
    assert training.operations(config, 100) == 6 * (encoder + decoder + 100 * 8)


def test_batches_are_like_captions() -> None:
    batches = training.captions(500)
    lengths = [batch.tokens / len(batch.source) for batch in batches]
    assert 8 < sum(lengths) / len(lengths) < 20
    assert all(batch.source.numel() <= training.TOKENS + 64 for batch in batches)


def test_ours_decodes_as_many_steps_as_the_peers() -> None:
    given = decoding.subject("", "")
    found = decoding.ours(given)(given.sentences[:3], 2)
    assert isinstance(found, list)
    assert [len(each[0].ids) for each in found] == [decoding.STEPS] * 3


def test_ctranslate2_decodes_as_many_steps() -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    given = decoding.subject("", "")
    found = decoding.ctranslate2(given, "float32")(given.sentences[:3], 2)
    assert isinstance(found, list)
    assert [len(each.hypotheses[0]) for each in found] == [decoding.STEPS] * 3


def test_hugging_face_decodes_the_same_with_the_same_weights() -> None:
    pytest.importorskip("transformers", reason="the extra `bench` is not installed")
    given = decoding.subject("", "")
    ours = decoding.ours(given)(given.sentences[:3], 1)
    theirs = decoding.huggingface(given)(given.sentences[:3], 1)
    assert isinstance(ours, list)
    assert isinstance(theirs, list)
    assert [row[1:] for row in theirs[0].tolist()] == [list(each[0].ids) for each in ours]
