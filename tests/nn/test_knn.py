"""Words from memory: kernel regression over the nearest places, in PyTorch and by the kernel."""

from typing import cast

import pytest
import torch

from regard.config.models import RnnConfig, TransformerConfig
from regard.engine.library import kernels
from regard.engine.search import nearest
from regard.nn import Gaussian, attend, knn
from regard.nn.build import build
from regard.nn.knn import Datastore, KnnModel
from regard.nn.seq2seq import Seq2SeqModel
from regard.tokenization import Tokenizer

WORDS, WIDTH = 30, 16
native = pytest.mark.skipif(kernels() is None, reason="there is no compiled library")


def memory(places: int = 200, count: int = 8, weight: float = 0.4, sharpness: float = 0.5) -> Datastore:
    torch.manual_seed(places)
    keys, words = torch.randn(places, WIDTH).half(), torch.randint(4, WORDS, (places,))
    return Datastore(keys, words, count=count, weight=weight, sharpness=sharpness)


def test_all_places_asked_is_kernel_regression_by_the_attention_core() -> None:
    known = memory(places=20, count=20)
    query, scores = torch.randn(5, WIDTH), torch.randn(5, WORDS)
    values = torch.nn.functional.one_hot(known.tokens.long(), WORDS).float()
    regression = attend(query, known.keys.float(), values, score=Gaussian(0.5))
    expected = 0.6 * scores.softmax(-1) + 0.4 * regression
    assert torch.allclose(known.interpolate(query, scores).exp(), expected, atol=1e-6)


@pytest.mark.parametrize("places", [1, 7, 8, 31, 1023, 1024, 1025, 3000])
@pytest.mark.parametrize("rows", [1, 2, 35, 80])
def test_the_nearest_are_those_of_a_plain_search(places: int, rows: int) -> None:
    known, query = memory(places, count=1), torch.randn(rows, WIDTH)
    count = min(8, places)
    distances, which = known.nearest(query, count)
    expected, where = (query.unsqueeze(1) - known.keys.float()).square().sum(-1).sort(dim=-1)
    assert torch.allclose(distances, expected[:, :count], rtol=1e-4, atol=1e-4)
    assert (which == where[:, :count]).float().mean() > 0.99  # rounding may exchange two of them


@native
def test_the_kernel_finds_what_pytorch_finds_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn, "BLOCK", 300)
    known, query = memory(2000), torch.randn(50, WIDTH)
    distances, places = nearest(known, query, 8)
    plain_distances, plain_places = known.nearest(query, 8)
    assert torch.allclose(distances, plain_distances, atol=1e-4)
    assert (places == plain_places).float().mean() > 0.99


@native
def test_of_equal_places_the_first_is_asked() -> None:
    keys = torch.ones(100, WIDTH).half()
    known = Datastore(keys, torch.arange(100) % WORDS, count=5, weight=0.5, sharpness=1.0)
    _, places = nearest(known, torch.randn(3, WIDTH), 5)
    assert places.tolist() == [[0, 1, 2, 3, 4]] * 3


@native
def test_a_query_has_the_same_neighbours_and_bits_in_any_company() -> None:
    known, query = memory(3000), torch.randn(70, WIDTH)
    together = nearest(known, query, 8)
    for first, last in ((0, 1), (3, 5), (10, 47)):
        alone = nearest(known, query[first:last], 8)
        assert all(torch.equal(one, all_of[first:last]) for one, all_of in zip(alone, together, strict=True))


def test_what_cannot_be_asked_is_refused() -> None:
    keys, words = torch.randn(3, WIDTH), torch.zeros(3)
    with pytest.raises(ValueError, match="3 keys and 3 tokens cannot return 4 neighbours"):
        Datastore(keys, words, count=4, weight=0.5, sharpness=1.0)
    with pytest.raises(ValueError, match="3 keys and 2 tokens"):
        Datastore(keys, words[:2], count=1, weight=0.5, sharpness=1.0)
    with pytest.raises(ValueError, match="keys have 16 components"):
        KnnModel(model("rnn"), Datastore(keys, words, count=1, weight=0.5, sharpness=1.0))


def model(kind: str) -> Seq2SeqModel:
    torch.manual_seed(1)
    config = (
        TransformerConfig(encoder_layers=1, decoder_layers=2, d_model=WIDTH, heads=2, d_ff=32)
        if kind == "transformer"
        else RnnConfig("rnn", embedding=16, hidden=24, attention="luong")
    )
    return cast(Seq2SeqModel, build(config, WORDS, WORDS, Tokenizer.padding).eval())


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_a_model_finds_the_word_it_remembers_of_the_same_place(kind: str) -> None:
    alone = model(kind)
    source, target = torch.tensor([[5, 6, 7, 1], [8, 9, 10, 1]]), torch.tensor([[0, 11, 12], [0, 13, 14]])
    gold = torch.tensor([11, 12, 1, 13, 14, 1])
    with torch.no_grad():
        keys = alone.hidden(source, target).flatten(0, 1)
        asked = KnnModel(alone, Datastore(keys, gold, count=2, weight=0.9, sharpness=100.0))
        state = asked.start(source)
        for place in range(3):
            scores, state = asked.step(target[:, place], state)
            assert torch.allclose(scores.exp().sum(-1), torch.ones(2), atol=1e-5)
            assert scores.argmax(-1).tolist() == gold.view(2, 3)[:, place].tolist()
