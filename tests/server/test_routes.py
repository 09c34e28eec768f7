"""/translate, /attention and /models over a loopback port."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from support.live_server import run_server
from support.prometheus_text import read

import regard
from regard.server.middleware import MAX_BODY_BYTES
from regard.server.schemas import MAX_CHARACTERS, MAX_TEXTS
from regard.viz.attention_maps import AttentionMaps

SENTENCES = ["eins zwei drei", "vier", "", "sieben sechs fünf vier", "zwei zwei", "drei eins sechs"]


def test_one_text_and_many_in_order(client: httpx.Client, run: Path) -> None:
    expected = regard.load(run).translate(SENTENCES)
    answer = client.post("/translate", json={"text": SENTENCES})
    assert answer.status_code == 200
    body = answer.json()
    assert body["model"] == "numbers"
    assert [item["text"] for item in body["translations"]] == expected
    one = client.post("/translate", json={"text": SENTENCES[0]}).json()["translations"]
    assert one == body["translations"][:1]
    assert client.post("/translate", json={"text": []}).json()["translations"] == []


@pytest.mark.parametrize("threads", [1, 2])
def test_translations_do_not_depend_on_the_batch(threads: int, run: Path) -> None:
    """Forty clients at once share batches, and get the same translations as one alone."""
    texts = [" ".join(SENTENCES[number % 6].split()[: 1 + number % 3]) for number in range(40)]
    expected = regard.load(run).translate(texts)
    with (
        run_server({"numbers": run}, threads=threads) as server,
        server.client(limits=httpx.Limits(max_connections=40)) as client,
        ThreadPoolExecutor(40) as pool,
    ):
        before = read(client.get("/metrics").text).samples
        answers = list(pool.map(lambda text: client.post("/translate", json={"text": text}), texts))
        after = read(client.get("/metrics").text).samples
    assert [answer.json()["translations"][0]["text"] for answer in answers] == expected
    labels = (("model", "numbers"),)
    batches, sentences = (after[name, labels] - before.get((name, labels), 0) for name in (
        "regard_batch_sentences_count", "regard_batch_sentences_sum"))  # fmt: skip
    assert sentences == 40
    assert batches < 40


def test_nbest_and_beam(client: httpx.Client) -> None:
    [best] = client.post("/translate", json={"text": "eins drei", "nbest": 3, "beam": 4}).json()["translations"]
    scores = [best["score"], *(other["score"] for other in best["others"])]
    assert best["text"] == "one three"
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert len({best["text"], *(other["text"] for other in best["others"])}) == 3


def test_the_alignment_has_words_and_spans(client: httpx.Client) -> None:
    text = "Eins 🙂 sieben"
    [best] = client.post("/translate", json={"text": text, "attention": True}).json()["translations"]
    alignment = best["alignment"]
    for side, whole in (("source", text), ("target", best["text"])):
        parts = [whole[start:end] for start, end in alignment[side]["places"]]
        assert parts == alignment[side]["words"]
    [plain] = client.post("/translate", json={"text": "drei sechs", "attention": True}).json()["translations"]
    strongest = {
        max((link for link in plain["alignment"]["links"] if link[0] == word), key=lambda link: link[2])[1]
        for word in (0, 1)
    }
    assert plain["text"] == "three six"
    assert strongest == {0, 1}


def test_unknown_words_and_their_positions(client: httpx.Client) -> None:
    texts = ["Eins 🙂 sieben, Donald Trump!", "drei sechs", "Trump eins zwei drei vier. " * 8]
    first, second, split = client.post("/translate", json={"text": texts}).json()["translations"]
    assert [word["text"] for word in first["unknown"]] == ["Eins", "🙂", ",", "Donald", "Trump", "!"]
    assert [texts[0][start:end] for start, end in (word["place"] for word in first["unknown"])] == [
        word["text"] for word in first["unknown"]
    ]
    assert (first["words"], second["words"], second["unknown"]) == (7, 2, [])
    assert split["note"]
    assert [texts[2][slice(*word["place"])] for word in split["unknown"]] == ["Trump", "."] * 8
    assert split["words"] == 48


def test_translations_are_streamed_as_lines(client: httpx.Client) -> None:
    headers = {"Accept": "application/x-ndjson"}
    with client.stream("POST", "/translate", json={"text": SENTENCES}, headers=headers) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in answer.iter_lines()]
    whole = client.post("/translate", json={"text": SENTENCES}).json()["translations"]
    assert lines == [{"number": number, **item} for number, item in enumerate(whole)]


def test_a_long_text_is_split_cut_or_refused(client: httpx.Client) -> None:
    text = "eins zwei drei vier. " * 10

    def translate(**more: str) -> httpx.Response:
        return client.post("/translate", json={"text": ["vier", text], "attention": True, **more})

    split, cut = (translate(**more).json()["translations"][1] for more in ({}, {"long": "cut"}))
    assert split["note"] == "line 2 has 51 tokens, the model allows 24: translated in parts"
    assert cut["note"].endswith("the rest is left out")
    assert cut["alignment"] is None
    assert len(split["text"]) > len(cut["text"])
    words = split["alignment"]["target"]
    assert [split["text"][start:end] for start, end in words["places"]] == words["words"]
    assert max(link[1] for link in split["alignment"]["links"]) > 24
    refused = translate(long="refuse")
    assert refused.status_code == 422
    assert refused.json() == {
        "error": "line 2 has 51 tokens, the model allows 24; choose split or cut to translate it"
    }


def test_attention_as_payload_and_as_page(client: httpx.Client) -> None:
    body = {"text": "drei vier", "target": "three four"}
    payload = AttentionMaps.from_json(client.post("/attention", json=body).json())
    assert payload.input.words[:2] == ("drei", "vier")
    assert payload.alignment().shape == (3, 3)
    page = client.post("/attention", json=body, headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    again = client.get(page.headers["content-location"])
    assert again.content == page.content
    assert "sandbox allow-scripts" in again.headers["content-security-policy"]
    assert "allow-same-origin" not in again.headers["content-security-policy"]
    assert client.get("/attention/none").status_code == 404
    long = client.post("/attention", json={"text": "eins " * 30})
    assert (long.status_code, long.json()["error"]) == (
        422, "the text has 31 tokens, the model's maximum is 24",
    )  # fmt: skip


def test_models_are_listed(client: httpx.Client, run: Path) -> None:
    response = client.get("/models").json()
    [model] = response["models"]
    assert (model["name"], model["source_language"], model["target_language"]) == ("numbers", "de", "en")
    assert model["card"] == (run / "README.md").read_text("utf-8")
    assert 1 <= len(model["examples"]) <= 4
    assert response["limits"]["texts"] == MAX_TEXTS


MISTAKES = [
    (
        {"text": 5},
        422,
        f"text: expected a text of at most {MAX_CHARACTERS:,} characters, or a list of at most {MAX_TEXTS}",
    ),
    ({"text": ["a", None]}, 422, "text: expected a text"),
    ({"text": "a" * (MAX_CHARACTERS + 1)}, 422, "text: expected a text"),
    ({"text": ["a"] * (MAX_TEXTS + 1)}, 422, "text: expected a text"),
    ({"text": "a", "beam": 0}, 422, "beam: expected a whole number from 1 to 32"),
    ({"text": "a", "beam": True}, 422, "beam: expected a whole number"),
    ({"text": "a", "nbest": "2"}, 422, "nbest: expected a whole number"),
    ({"text": "a", "long": "drop"}, 422, 'long: expected "split", "cut" or "refuse"'),
    ({"text": "a", "attention": 1}, 422, "attention: expected true or false"),
    ({"txt": "a"}, 422, "'txt': there is no such key; did you mean 'text'? allowed: text, model, beam"),
    ({}, 422, "text: this key is missing"),
    ([], 422, "the body is not a JSON object"),
    ({"text": "a", "model": "nmbers"}, 404, "model: there is no model of this name; did you mean numbers"),
]


@pytest.mark.parametrize(("body", "status", "message"), MISTAKES, ids=[str(row[2])[:40] for row in MISTAKES])
def test_invalid_requests(client: httpx.Client, body: object, status: int, message: str) -> None:
    answer = client.post("/translate", json=body)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert answer.json()["error"].startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "the body is not JSON"),
        (b'{"text": "\\ud800"}', "text: expected"),
        (b"\xff\xfe", "the body is not JSON"),
        (b'{"text": "\xe4"}', "the body is not JSON in UTF-8"),
        (b"[" * 100_000, "the body is nested deeper than 100 levels; expected one object of texts or lists"),
        (b'{"text": ' * 50_000 + b"1" + b"}" * 50_000, "the body is nested deeper than 100 levels"),
        (b'{"text": ' + b"[" * 99 + b"]" * 99 + b"}", "text: expected a text"),
        (
            b'{"text": "a", "beam": ' + b"1" * 5000 + b"}",
            "the body contains a number of more than 4,300 digits",
        ),
    ],
)
def test_invalid_json(client: httpx.Client, content: bytes, message: str) -> None:
    answer = client.post("/translate", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"].startswith(message)


@pytest.mark.parametrize("has_length", [True, False])
def test_a_large_body_is_refused(client: httpx.Client, has_length: bool) -> None:
    """With a Content-Length header, and in chunks without it."""
    body = json.dumps({"text": "a" * (MAX_BODY_BYTES + 1)}).encode()
    content = body if has_length else (body[first : first + 65536] for first in range(0, len(body), 65536))
    answer = client.post("/translate", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["error"] == f"the request has more than {MAX_BODY_BYTES:,} bytes; send it in pieces"
    assert client.get("/health").json() == {"status": "ok"}


def test_unknown_paths_and_methods(client: httpx.Client) -> None:
    for method, path, status in (("GET", "/nothing", 404), ("GET", "/docs", 404), ("PUT", "/translate", 405)):
        answer = client.request(method, path)
        assert answer.status_code == status
        assert list(answer.json()) == ["error"]


def test_several_models_by_name(run: Path) -> None:
    with run_server({"one": run, "two": run}) as server, server.client() as client:
        assert [model["name"] for model in client.get("/models").json()["models"]] == ["one", "two"]
        for name, model in (("one", {}), ("two", {"model": "two"})):
            answer = client.post("/translate", json={"text": "vier", **model}).json()
            assert (answer["model"], answer["translations"][0]["text"]) == (name, "four")


def test_openapi_lists_routes_and_errors(client: httpx.Client) -> None:
    schema = client.get("/openapi.json").json()
    assert {"/translate", "/attention", "/models", "/health", "/metrics"} <= schema["paths"].keys()
    assert {"422", "429", "504"} <= schema["paths"]["/translate"]["post"]["responses"].keys()
