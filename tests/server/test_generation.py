"""/generate over a loopback port gives the same texts as the loaded run, at once and streamed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from support.live_server import LiveServer, run_server

import regard
from regard.config.schema import parse_assignments
from regard.decoding import SamplingConfig
from regard.decoding.generator import GenerationConfig

TEXT = "".join(f"line {number} of a small text\n" for number in range(80))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("language_models")
    (folder / "text.txt").write_text(TEXT)
    data = [f"data.train={folder / 'text.txt'}", "tokenizer.kind=characters"]
    regard.train(
        "gpt",
        folder / "gpt",
        overrides=parse_assignments([*data, "model.size=nano", "train.steps=3", "train.batch_tokens=128"]),
    )
    regard.train("ngram", folder / "counts", overrides=parse_assignments(data))
    return {"gpt": folder / "gpt", "counts": folder / "counts"}


@pytest.fixture(scope="module")
def server(runs: dict[str, Path]) -> Iterator[LiveServer]:
    with run_server(runs) as server:
        yield server


def test_texts_equal_the_run_at_once_and_streamed(server: LiveServer, runs: dict[str, Path]) -> None:
    prompts = ["line 3", "small", "of"]
    for name, folder in runs.items():
        config = GenerationConfig(30, SamplingConfig(5, 0.8, top_k=9), stop=("xx",))
        whole = regard.load(folder).complete(prompts, config)
        expected = [completion.text for completion in whole]
        body = {"model": name, "tokens": 30, "seed": 5, "temperature": 0.8, "top_k": 9, "stop": ["xx"]}
        with server.client() as client:
            response = client.post("/generate", json={**body, "prompt": prompts}).json()
            assert [text["text"] for text in response["texts"]] == expected
            accept = {"Accept": "application/x-ndjson"}
            with client.stream(
                "POST", "/generate", json={**body, "prompt": prompts[0]}, headers=accept
            ) as answer:
                lines = [json.loads(line) for line in answer.iter_lines()]
        assert "".join(line["piece"] for line in lines[:-1]) == expected[0]
        assert len(lines) > 10
        assert lines[-1] == {"text": expected[0], "tokens": whole[0].tokens, "why": whole[0].why}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"prompt": "Ä"}, "the prompt has 'Ä', a character that is not in the model's vocabulary"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": "line", "tokens": 0}, "tokens"),
        ({"prompt": "line", "stop": ["Ä"]}, "cannot occur"),
        ({"prompt": "a" * 65}, "more than the model's window of 64"),
        ({"prompt": "line", "top_p": 0.0}, "top_p"),
        ({"prompt": "line", "model": "nobody"}, "there is no model of this name"),
    ],
)
def test_invalid_requests(server: LiveServer, body: dict, sentence: str) -> None:
    with server.client() as client:
        answer = client.post("/generate", json=body)
    assert answer.status_code in (404, 422)
    assert sentence in answer.json()["error"]


def test_models_and_attention(server: LiveServer) -> None:
    with server.client() as client:
        models = client.get("/models").json()["models"]
        assert [model["does"] for model in models] == [["/generate"], ["/generate"]]
        maps = client.post("/attention", json={"text": "line", "model": "gpt"}).json()
        assert maps["format"] == "regard.looked"
        assert client.post("/attention", json={"text": "line", "model": "counts"}).status_code == 422


def test_the_page_continues_prompts(server: LiveServer, runs: dict[str, Path], browser: Browser) -> None:
    prompts = ["line 3", "small"]
    expected = regard.load(runs["gpt"]).generate(prompts, GenerationConfig(100))
    page, errors = browser.new_page(), []
    page.on("pageerror", lambda problem: errors.append(str(problem)))
    page.goto(server.address)
    expect(page.locator("#model-summary")).to_have_text("generates text")
    page.fill("#input-text", "\n".join(prompts))
    written = page.locator("#results .result")
    expect(written).to_have_count(2, timeout=15_000)
    assert [paragraph.text_content() for paragraph in written.all()] == list(
        map(str.__add__, prompts, expected)
    )
    page.click("#results-attention")
    expect(page.frame_locator("#attention-frame").locator("body")).to_contain_text(
        "Decoder layer 1 · self-attention", timeout=15_000
    )
    page.click("#attention-close")
    page.fill("#input-text", "Ä")
    expect(page.locator("main")).to_contain_text(
        "a character that is not in the model's vocabulary", timeout=15_000
    )
    assert errors == []
    page.close()
