"""`/tokenize`: pieces and ids as each kind of model reads them."""

from pathlib import Path

import httpx
import pytest
from support.live_server import run_server
from support.small_models import transformer, write_run

import regard
from regard.server.access import LARGEST_BODY
from regard.server.messages import CHARACTERS, TEXTS

TEXT = "drei vier zwei"


def test_pieces_and_ids_of_a_translator_end_with_its_end(tmp_path: Path) -> None:
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


def test_a_bert_reads_its_special_tokens(readers: dict[str, Path]) -> None:
    with run_server(readers) as server, server.client() as client:
        for name, kind in (("sentiment", regard.Classifier), ("ner", regard.Tagger)):
            [found] = client.post("/tokenize", json={"text": "a dull film", "model": name}).json()["texts"]
            tokenizer = kind.load(readers[name]).tokenizer
            assert found["ids"] == tokenizer.joined(tokenizer.encode("a dull film"), None)
            assert (found["pieces"][0], found["pieces"][-1]) == ("[CLS]", "[SEP]")
            assert found["count"] == len(found["ids"]) == len(found["pieces"])


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({}, 422, "text: this key is missing"),
        ({"text": 5}, 422, f"text: wanted is a text of at most {CHARACTERS:,} characters"),
        ({"text": "a" * (CHARACTERS + 1)}, 422, "text: wanted is"),
        ({"text": ["a"] * (TEXTS + 1)}, 422, "text: wanted is"),
        ({"text": "a", "models": "numbers"}, 422, "'models': there is no such key; did you mean 'model'?"),
        (
            {"text": "a", "model": "number"},
            404,
            "model: there is no model of this name; did you mean numbers; served: numbers",
        ),
        ({"text": "a" * LARGEST_BODY}, 413, f"the request has more than {LARGEST_BODY:,} bytes"),
    ],
    ids=["no text", "a number", "a long text", "many texts", "another key", "another model", "a large body"],
)
def test_what_is_not_tokenized(client: httpx.Client, body: object, status: int, sentence: str) -> None:
    answer = client.post("/tokenize", json=body)
    assert answer.status_code == status
    assert answer.json()["error"].startswith(sentence)


def test_it_is_in_the_schema_and_wants_the_token(run: Path, client: httpx.Client) -> None:
    assert "/tokenize" in client.get("/openapi.json").json()["paths"]
    with run_server({"numbers": run}, token="a-word") as server, server.client() as stranger:
        assert stranger.post("/tokenize", json={"text": "eins"}).status_code == 401
        headers = {"Authorization": "Bearer a-word"}
        assert stranger.post("/tokenize", json={"text": "eins"}, headers=headers).status_code == 200
