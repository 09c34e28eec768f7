"""The page's panel for encoders, in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from support.live_server import LiveServer, run_server

expect.set_options(timeout=15_000)  # a machine may be busy with other tests
HOSTILE = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"


@pytest.fixture(scope="module")
def server(encoders: dict[str, Path], run: Path) -> Iterator[LiveServer]:
    with run_server({**encoders, "numbers": run}) as server:
        yield server


@pytest.fixture
def page(browser: Browser, server: LiveServer) -> Iterator[Page]:
    """The page; it must print nothing on its console, and send requests to its server only."""
    opened, console, requests = browser.new_page(), [], []
    opened.set_default_timeout(15_000)
    opened.on("console", lambda message: console.append(message.text))
    opened.on("pageerror", lambda problem: console.append(str(problem)))
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(server.address)
    expect(opened.locator("#input-text")).to_be_visible()
    yield opened
    assert console == []
    assert all(url.startswith(server.address) for url in requests)
    opened.close()


def test_bars_are_proportional_to_probabilities(page: Page) -> None:
    page.fill("#input-text", "a very green house\ngrey tree")
    expect(page.locator("#results .result")).to_have_count(2)
    labels = page.locator("#results .result:nth-child(1) .label").all_text_contents()
    assert labels == ["good", "bad"]
    widths = page.evaluate(
        "[...document.querySelectorAll('#results .result:nth-child(1) .bar')].map(bar =>"
        " parseFloat(getComputedStyle(bar, '::before').width) / bar.getBoundingClientRect().width)"
    )
    shares = page.locator("#results .result:nth-child(1) .score").all_text_contents()
    assert widths == pytest.approx([float(share.rstrip("%")) / 100 for share in shares], abs=0.01)
    expect(page.locator("#translation")).to_be_hidden()
    expect(page.locator("#beam")).to_be_hidden()
    expect(page.locator("#file")).to_be_hidden()
    page.fill("#input-text", "")
    expect(page.locator("#results")).to_be_empty()
    assert page.locator("#results-attention").is_disabled()


def test_pairs_have_a_second_text_area(page: Page) -> None:
    page.select_option("#model", "inference")
    page.fill("#input-text", "a red house")
    expect(page.locator("#results")).to_be_empty()
    page.fill("#input-second", "a grey tree")
    expect(page.locator("#results .bar-row")).to_have_count(2)
    page.click("#results-attention")
    expect(page.frame_locator("#attention-frame").locator("body")).to_contain_text("house")
    page.click("#attention-close")


def test_entities_are_coloured_by_kind(page: Page) -> None:
    page.select_option("#model", "ner")
    expect(page.locator("#input-second-box")).to_be_hidden()
    page.fill("#input-text", "🙂 a very green old house\na black tree")
    expect(page.locator("#results mark")).to_have_count(2)
    assert page.locator("#results mark .kind").all_text_contents() == ["good", "bad"]
    assert page.evaluate("document.querySelector('#results mark').firstChild.data") == "green old"
    colours = page.evaluate(
        "[...document.querySelectorAll('#results mark')].map(mark => getComputedStyle(mark).backgroundColor)"
    )
    assert len(set(colours)) == 2
    page.fill("#input-text", "tall house")
    expect(page.locator("#results .hint")).to_have_text("No named entities.")


def test_an_answer_is_marked_in_its_paragraph(page: Page) -> None:
    page.select_option("#model", "qa")
    page.fill("#input-second", "a very tall tree is green house")
    page.fill("#input-text", "which colour")
    expect(page.locator("#results mark")).to_have_text("green")
    expect(page.locator("#results .answer-context")).to_have_text("a very tall tree is green house")
    expect(page.locator("#results .bar-row .label")).to_have_text("green")


def test_input_is_never_markup(page: Page) -> None:
    for model in ("sentiment", "ner"):
        page.select_option("#model", model)
        page.fill("#input-text", f"{HOSTILE}\ngreen {HOSTILE}")
        expect(page.locator("#results").locator(".result-title, .entities").first).to_contain_text("<script>")
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("window.hit") is None


def test_switching_between_a_translator_and_an_encoder(page: Page) -> None:
    page.fill("#input-text", "grey tree")
    expect(page.locator("#results .bar-row")).to_have_count(2)
    page.select_option("#model", "numbers")
    expect(page.locator("#results")).to_be_hidden()
    page.fill("#source-text", "drei sechs")
    expect(page.locator("#translation .line")).to_have_text("three six")
    page.select_option("#model", "sentiment")
    expect(page.locator("#results .bar-row")).to_have_count(2)
    expect(page.locator("#model-summary")).to_have_text("classifies texts")


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_screen(browser: Browser, server: LiveServer, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(server.address)
    for model, text in (
        ("sentiment", "green " * 30),
        ("ner", "greengreygreen" * 20 + " black"),
        ("qa", "which colour"),
    ):
        page.select_option("#model", model)
        if model == "qa":
            page.fill("#input-second", "tree " * 40 + "green house")
        page.fill("#input-text", text)
        expect(page.locator("#results").locator(".bar-row, mark").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_an_encoder_without_head_compares_lines(
    browser: Browser, encoders: dict[str, Path], tmp_path: Path
) -> None:
    encoder = tmp_path / "encoder"
    write_encoder(encoders["sentiment"], encoder)
    with run_server({"encoder": encoder}) as server:
        page = browser.new_page()
        page.goto(server.address)
        page.fill("#input-text", "a red house\na red house\ngrey tree")
        expect(page.locator("#results .bar-row .score")).to_have_count(2)
        same, other = (float(score) for score in page.locator("#results .bar-row .score").all_text_contents())
        assert same == 1.0 > other
        page.close()


def write_encoder(run: Path, out: Path) -> None:
    """The BERT of a run, without its head."""
    from regard.nn.build import build_bert
    from regard.tasks.encoder.config import EncoderRecipe
    from regard.tasks.encoder.run_folder import open_text_run, write_text_run

    opened = open_text_run(run)
    tokenizer = opened.tokenizer()
    bare = build_bert(opened.recipe.model, "none", tokenizer.size, tokenizer.padding)
    bare.bert.load_state_dict(opened.model().bert.state_dict())
    write_text_run(out, EncoderRecipe("encoder", opened.recipe.model), bare, tokenizer, [], "# Encoder\n")
