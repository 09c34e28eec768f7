"""/tokenize: pieces and ids as each kind of model reads them."""

from pathlib import Path

import httpx
import pytest
from support.live_server import run_server
from support.small_models import transformer, write_run

import regard
from regard.server.middleware import MAX_BODY_BYTES
from regard.server.schemas import MAX_CHARACTERS, MAX_TEXTS

TEXT = "drei vier zwei"


def test_a_translators_tokens_end_with_its_end_token(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", transformer())
    source = regard.Translator.load(run).vocabulary.source
    with run_server({"run": run}) as server, server.client() as client:
        body = client.post("/tokenize", json={"text": [TEXT, ""]}).json()
        one = client.post("/tokenize", json={"text": TEXT, "model": "run"}).json()
    ids = [*source.encode(TEXT), source.end]
    whole = {"pieces": source.tokens(ids), "ids": ids, "count": len(ids)}
    assert whole["pieces"] == ["▁drei", "▁vier", "▁zwei", "</s>"]
    assert body == {
        "model": "run",
        "vocabulary": source.size,
        "texts": [whole, {"pieces": ["</s>"], "ids": [source.end], "count": 1}],
    }
    assert one["texts"] == body["texts"][:1]


def test_a_berts_tokens_have_its_special_tokens(encoders: dict[str, Path]) -> None:
    with run_server(encoders) as server, server.client() as client:
        for name, kind in (("sentiment", regard.Classifier), ("ner", regard.Tagger)):
            [tokenized] = client.post("/tokenize", json={"text": "a dull film", "model": name}).json()["texts"]
            tokenizer = kind.load(encoders[name]).tokenizer
            assert tokenized["ids"] == tokenizer.with_special_tokens(tokenizer.encode("a dull film"), None)
            assert (tokenized["pieces"][0], tokenized["pieces"][-1]) == ("[CLS]", "[SEP]")
            assert tokenized["count"] == len(tokenized["ids"]) == len(tokenized["pieces"])


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 422, "text: this key is missing"),
        ({"text": 5}, 422, f"text: expected a text of at most {MAX_CHARACTERS:,} characters"),
        ({"text": "a" * (MAX_CHARACTERS + 1)}, 422, "text: expected"),
        ({"text": ["a"] * (MAX_TEXTS + 1)}, 422, "text: expected"),
        ({"text": "a", "models": "numbers"}, 422, "'models': there is no such key; did you mean 'model'?"),
        (
            {"text": "a", "model": "number"},
            404,
            "model: there is no model of this name; did you mean numbers; available: numbers",
        ),
        ({"text": "a" * MAX_BODY_BYTES}, 413, f"the request has more than {MAX_BODY_BYTES:,} bytes"),
    ],
    ids=["no text", "a number", "a long text", "many texts", "another key", "another model", "a large body"],
)
def test_invalid_requests(client: httpx.Client, body: object, status: int, message: str) -> None:
    answer = client.post("/tokenize", json=body)
    assert answer.status_code == status
    assert answer.json()["error"].startswith(message)


def test_it_is_in_the_schema_and_requires_the_token(run: Path, client: httpx.Client) -> None:
    assert "/tokenize" in client.get("/openapi.json").json()["paths"]
    with run_server({"numbers": run}, token="a-word") as server, server.client() as anonymous:
        assert anonymous.post("/tokenize", json={"text": "eins"}).status_code == 401
        headers = {"Authorization": "Bearer a-word"}
        assert anonymous.post("/tokenize", json={"text": "eins"}, headers=headers).status_code == 200
