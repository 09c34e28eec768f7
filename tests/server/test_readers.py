"""Labels, names, answers and vectors from the server, on a real loopback port: what the run gives by itself."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from support.live_server import LiveServer, run_server
from support.prometheus_text import read

import regard
from regard import tokenization
from regard.config.models import BertConfig, EmbedConfig
from regard.nn.build import build_bert
from regard.tasks.encoder.config import EncoderRecipe
from regard.tasks.encoder.run_folder import write_texts
from regard.viz.attention_maps import AttentionMaps

TEXTS = ["a very green house", "grey tree", "a tall old black house is very old"]


@pytest.fixture(scope="module")
def found(readers: dict[str, Path], run: Path) -> Iterator[LiveServer]:
    with run_server({**readers, "numbers": run}) as server:
        yield server


@pytest.fixture
def client(found: LiveServer) -> Iterator[httpx.Client]:
    with found.client() as opened:
        yield opened


def post(client: httpx.Client, path: str, **body: object) -> dict:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_labels_are_those_of_the_run(client: httpx.Client, readers: dict[str, Path]) -> None:
    expected = regard.load(readers["sentiment"]).classify(TEXTS)
    told = post(client, "/classify", text=TEXTS)
    assert told["model"] == "sentiment"
    assert [each["label"] for each in told["classifications"]] == [each.label for each in expected]
    for each, own in zip(told["classifications"], expected, strict=True):
        assert each["probabilities"] == pytest.approx(own.probabilities, abs=1e-5)
        assert each["note"] is None
    one = post(client, "/classify", text=TEXTS[0])["classifications"]
    assert [each["label"] for each in one] == ["good"]
    long = post(client, "/classify", text="old " * 300)["classifications"][0]
    assert long["note"] == "302 tokens; the model read 64 of them"


def test_pairs_are_labelled_by_the_model_that_was_trained_on_them(
    client: httpx.Client, readers: dict[str, Path]
) -> None:
    (expected,) = regard.load(readers["inference"]).classify([("a red house", "grey tree")])
    told = post(client, "/classify", text="a red house", pair="grey tree", model="inference")
    assert told["classifications"][0]["probabilities"] == pytest.approx(expected.probabilities, abs=1e-5)


def test_names_stand_where_they_stand_in_the_text(client: httpx.Client) -> None:
    text = "🙂 a very  green old house"
    [told] = post(client, "/tag", text=text)["texts"]
    assert [(each["name"], each["kind"]) for each in told["names"]] == [("green old", "good")]
    for each in [*told["names"], *told["words"]]:
        first, after = each["place"]
        assert text[first:after] == each.get("word", each.get("name"))
    assert post(client, "/tag", text="")["texts"] == [{"words": [], "names": []}]


def test_answers_are_a_stretch_of_the_paragraph(client: httpx.Client) -> None:
    paragraph = "a very tall tree is green house"
    told = post(client, "/answer", question=["which colour", "which colour"], paragraph=paragraph)["answers"]
    assert [each["answer"] for each in told] == ["green", "green"]
    first, after = told[0]["place"]
    assert paragraph[first:after] == "green"
    assert 0 < told[0]["probability"] <= 1


def test_vectors_are_those_of_the_run(client: httpx.Client, readers: dict[str, Path]) -> None:
    told = post(client, "/embed", text=TEXTS)["embeddings"]
    expected = regard.load(readers["sentiment"]).embed(TEXTS)
    assert np.allclose([each["vector"] for each in told], expected, atol=1e-5)
    other = post(client, "/embed", text=TEXTS, model="ner")["embeddings"]
    assert not np.allclose([each["vector"] for each in other], expected, atol=1e-3)


def test_vectors_are_pooled_as_the_run_is_set(tmp_path: Path) -> None:
    tokenizer = tokenization.train("bert", TEXTS, size=80, min_count=1)
    config = BertConfig(layers=1, d_model=16, heads=2, d_ff=24, max_length=24)
    recipe = EncoderRecipe("encoder", config, EmbedConfig("cls", normal=False))
    model = build_bert(config, "none", tokenizer.size, tokenizer.padding)
    write_texts(tmp_path / "run", recipe, model, tokenizer, (), "made by hand")
    with run_server({"encoder": tmp_path / "run"}) as server, server.client() as client:
        told = post(client, "/embed", text=TEXTS)["embeddings"]
    example = torch.tensor([tokenizer.joined(tokenizer.encode(TEXTS[1]))])
    with torch.no_grad():
        expected = model.eval().bert(example, torch.zeros_like(example))[0, 0]
    assert np.allclose(told[1]["vector"], expected, atol=1e-5)


def test_a_reader_is_looked_into(client: httpx.Client) -> None:
    maps = AttentionMaps.from_json(post(client, "/attention", text="a red house", model="sentiment"))
    assert list(maps.layers) == ["encoder.0.self"]
    assert maps.source == ["[CLS]", "a", "red", "house", "[SEP]"]
    pair = AttentionMaps.from_json(
        post(client, "/attention", text="red", target="old house", model="inference")
    )
    assert pair.source == ["[CLS]", "red", "[SEP]", "old", "house", "[SEP]"]
    page = client.post("/attention", json={"text": "red", "model": "ner"}, headers={"Accept": "text/html"})
    assert page.headers["content-location"].startswith("/attention/")


MISTAKES = [
    ("/classify", {"text": "a", "pair": "b"}, 422, "pair: sentiment labels single texts"),
    ("/classify", {"text": "a", "model": "inference"}, 422, "pair: inference labels pairs of texts"),
    ("/classify", {"text": ["a", "b"], "pair": "c", "model": "inference"}, 422, "pair: there are 2 texts and 1 second"),
    ("/classify", {"text": ["a", " "]}, 422, "text: number 2 is empty"),
    ("/classify", {"text": "a", "model": "ner"}, 422, "model: ner cannot be asked for /classify"),
    ("/classify", {"text": "a", "model": "nix"}, 404, "model: there is no model of this name"),
    ("/classify", {"txt": "a"}, 422, "'txt': there is no such key; did you mean 'text'?"),
    ("/tag", {"text": 5}, 422, "text: wanted is a text of at most"),
    ("/answer", {"question": "a"}, 422, "paragraph: this key is missing"),
    ("/answer", {"question": " ", "paragraph": "a"}, 422, "question: number 1 is empty"),
    ("/translate", {"text": "a", "model": "ner"}, 422, "model: ner does not translate"),
    ("/attention", {"text": "old " * 90}, 422, "the text has 92 tokens, the model can look at 64"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"), MISTAKES, ids=[row[3][:40] for row in MISTAKES]
)
def test_a_mistake_is_one_sentence(
    client: httpx.Client, path: str, body: dict, status: int, sentence: str
) -> None:
    answer = client.post(path, json=body)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert answer.json()["error"].startswith(sentence)


def test_routes_are_those_that_some_model_answers(found: LiveServer, client: httpx.Client, run: Path) -> None:
    told = client.get("/openapi.json").json()["paths"]
    assert {"/translate", "/classify", "/tag", "/answer", "/embed", "/attention"} <= told.keys()
    assert {"413", "429", "504"} <= told["/tag"]["post"]["responses"].keys()
    models = {model["name"]: model for model in client.get("/models").json()["models"]}
    assert models["ner"]["does"] == ["/tag", "/embed"]
    assert models["inference"]["pairs"] is True
    assert models["numbers"]["beam"] == 5
    samples = read(client.get("/metrics").text).samples
    assert samples["regard_sentences_total", (("model", "ner"),)] > 0


def test_a_server_without_a_reader_has_none_of_its_routes(server: LiveServer) -> None:
    with server.client() as client:
        assert not {"/classify", "/embed"} & client.get("/openapi.json").json()["paths"].keys()
        assert client.post("/classify", json={"text": "a"}).status_code == 404
