"""/classify, /tag, /answer and /embed over a loopback port give the same results as the loaded run."""

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
from regard.tasks.encoder.run_folder import write_text_run
from regard.viz.attention_maps import AttentionMaps

TEXTS = ["a very green house", "grey tree", "a tall old black house is very old"]


@pytest.fixture(scope="module")
def encoder_server(encoders: dict[str, Path], run: Path) -> Iterator[LiveServer]:
    with run_server({**encoders, "numbers": run}) as server:
        yield server


@pytest.fixture
def client(encoder_server: LiveServer) -> Iterator[httpx.Client]:
    with encoder_server.client() as client:
        yield client


def post(client: httpx.Client, path: str, **body: object) -> dict:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def test_classify_equals_the_run(client: httpx.Client, encoders: dict[str, Path]) -> None:
    expected = regard.load(encoders["sentiment"]).classify(TEXTS)
    response = post(client, "/classify", text=TEXTS)
    assert response["model"] == "sentiment"
    assert [item["label"] for item in response["classifications"]] == [label.label for label in expected]
    for item, label in zip(response["classifications"], expected, strict=True):
        assert item["probabilities"] == pytest.approx(label.probabilities, abs=1e-5)
        assert item["note"] is None
    one = post(client, "/classify", text=TEXTS[0])["classifications"]
    assert [item["label"] for item in one] == ["good"]
    long = post(client, "/classify", text="old " * 300)["classifications"][0]
    assert long["note"] == "302 tokens; the model read 64 of them"


def test_classify_of_pairs_equals_the_run(client: httpx.Client, encoders: dict[str, Path]) -> None:
    (expected,) = regard.load(encoders["inference"]).classify([("a red house", "grey tree")])
    response = post(client, "/classify", text="a red house", pair="grey tree", model="inference")
    assert response["classifications"][0]["probabilities"] == pytest.approx(expected.probabilities, abs=1e-5)


def test_tag_returns_spans_of_the_text(client: httpx.Client) -> None:
    text = "🙂 a very  green old house"
    [tagged] = post(client, "/tag", text=text)["texts"]
    assert [(entity["name"], entity["kind"]) for entity in tagged["names"]] == [("green old", "good")]
    for item in [*tagged["names"], *tagged["words"]]:
        start, end = item["place"]
        assert text[start:end] == item.get("word", item.get("name"))
    assert post(client, "/tag", text="")["texts"] == [{"words": [], "names": []}]


def test_answer_returns_spans_of_the_paragraph(client: httpx.Client) -> None:
    paragraph = "a very tall tree is green house"
    answers = post(client, "/answer", question=["which colour", "which colour"], paragraph=paragraph)["answers"]
    assert [item["answer"] for item in answers] == ["green", "green"]
    start, end = answers[0]["place"]
    assert paragraph[start:end] == "green"
    assert 0 < answers[0]["probability"] <= 1


def test_embed_equals_the_run(client: httpx.Client, encoders: dict[str, Path]) -> None:
    embeddings = post(client, "/embed", text=TEXTS)["embeddings"]
    expected = regard.load(encoders["sentiment"]).embed(TEXTS)
    assert np.allclose([item["vector"] for item in embeddings], expected, atol=1e-5)
    other = post(client, "/embed", text=TEXTS, model="ner")["embeddings"]
    assert not np.allclose([item["vector"] for item in other], expected, atol=1e-3)


def test_embed_uses_the_pooling_of_the_run(tmp_path: Path) -> None:
    tokenizer = tokenization.train("bert", TEXTS, size=80, min_count=1)
    config = BertConfig(layers=1, d_model=16, heads=2, d_ff=24, max_length=24)
    recipe = EncoderRecipe("encoder", config, EmbedConfig("cls", normalize=False))
    model = build_bert(config, "none", tokenizer.size, tokenizer.padding)
    write_text_run(tmp_path / "run", recipe, model, tokenizer, (), "made by hand")
    with run_server({"encoder": tmp_path / "run"}) as server, server.client() as client:
        embeddings = post(client, "/embed", text=TEXTS)["embeddings"]
    example = torch.tensor([tokenizer.with_special_tokens(tokenizer.encode(TEXTS[1]))])
    with torch.no_grad():
        expected = model.eval().bert(example, torch.zeros_like(example))[0, 0]
    assert np.allclose(embeddings[1]["vector"], expected, atol=1e-5)


def test_attention_of_encoders(client: httpx.Client) -> None:
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
    ("/classify", {"text": "a", "pair": "b"}, 422, "pair: sentiment classifies single texts"),
    ("/classify", {"text": "a", "model": "inference"}, 422, "pair: inference classifies pairs of texts"),
    ("/classify", {"text": ["a", "b"], "pair": "c", "model": "inference"}, 422, "pair: there are 2 texts and 1 second"),
    ("/classify", {"text": ["a", " "]}, 422, "text: number 2 is empty"),
    ("/classify", {"text": "a", "model": "ner"}, 422, "model: ner does not support /classify; use one of: sentiment, inference"),
    ("/classify", {"text": "a", "model": "nix"}, 404, "model: there is no model of this name"),
    ("/classify", {"txt": "a"}, 422, "'txt': there is no such key; did you mean 'text'?"),
    ("/tag", {"text": 5}, 422, "text: expected a text of at most"),
    ("/answer", {"question": "a"}, 422, "paragraph: this key is missing"),
    ("/answer", {"question": " ", "paragraph": "a"}, 422, "question: number 1 is empty"),
    ("/translate", {"text": "a", "model": "ner"}, 422, "model: ner does not support /translate; use one of: numbers"),
    ("/attention", {"text": "old " * 90}, 422, "the text has 92 tokens, the model's maximum is 64"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "status", "message"), MISTAKES, ids=[row[3][:40] for row in MISTAKES])
def test_invalid_requests(client: httpx.Client, path: str, body: dict, status: int, message: str) -> None:
    response = client.post(path, json=body)
    assert (response.status_code, list(response.json())) == (status, ["error"])
    assert response.json()["error"].startswith(message)


def test_routes_are_those_of_the_models(encoder_server: LiveServer, client: httpx.Client, run: Path) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/translate", "/classify", "/tag", "/answer", "/embed", "/attention"} <= paths.keys()
    assert {"413", "429", "504"} <= paths["/tag"]["post"]["responses"].keys()
    models = {model["name"]: model for model in client.get("/models").json()["models"]}
    assert models["ner"]["does"] == ["/tag", "/embed"]
    assert models["inference"]["pairs"] is True
    assert models["numbers"]["beam"] == 5
    samples = read(client.get("/metrics").text).samples
    assert samples["regard_sentences_total", (("model", "ner"),)] > 0


def test_without_encoders_there_are_no_encoder_routes(server: LiveServer) -> None:
    with server.client() as client:
        assert not {"/classify", "/embed"} & client.get("/openapi.json").json()["paths"].keys()
        assert client.post("/classify", json={"text": "a"}).status_code == 404
