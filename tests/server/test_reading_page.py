"""The page's panels for models that read, in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from support.live_server import LiveServer, run_server

expect.set_options(timeout=15_000)  # a machine may be busy with other tests
HOSTILE = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"


@pytest.fixture(scope="module")
def found(readers: dict[str, Path], run: Path) -> Iterator[LiveServer]:
    with run_server({**readers, "numbers": run}) as server:
        yield server


@pytest.fixture
def page(browser: Browser, found: LiveServer) -> Iterator[Page]:
    """The page; nothing on its console, nothing asked of anyone else."""
    opened, said, asked = browser.new_page(), [], []
    opened.set_default_timeout(15_000)
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda problem: said.append(str(problem)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(found.address)
    expect(opened.locator("#read-text")).to_be_visible()
    yield opened
    assert said == []
    assert all(url.startswith(found.address) for url in asked)
    opened.close()


def test_labels_have_bars_as_long_as_they_are_likely(page: Page) -> None:
    page.fill("#read-text", "a very green house\ngrey tree")
    expect(page.locator("#found .finding")).to_have_count(2)
    labels = page.locator("#found .finding:nth-child(1) .label").all_text_contents()
    assert labels == ["good", "bad"]
    widths = page.evaluate(
        "[...document.querySelectorAll('#found .finding:nth-child(1) .bar')].map(bar =>"
        " parseFloat(getComputedStyle(bar, '::before').width) / bar.getBoundingClientRect().width)"
    )
    shares = page.locator("#found .finding:nth-child(1) .score").all_text_contents()
    assert widths == pytest.approx([float(share.rstrip("%")) / 100 for share in shares], abs=0.01)
    expect(page.locator("#translation")).to_be_hidden()
    expect(page.locator("#beam")).to_be_hidden()
    expect(page.locator("#file")).to_be_hidden()
    page.fill("#read-text", "")
    expect(page.locator("#found")).to_be_empty()
    assert page.locator("#found-view").is_disabled()


def test_pairs_have_a_second_box(page: Page) -> None:
    page.select_option("#model", "inference")
    page.fill("#read-text", "a red house")
    expect(page.locator("#found")).to_be_empty()
    page.fill("#read-second", "a grey tree")
    expect(page.locator("#found .share")).to_have_count(2)
    page.click("#found-view")
    expect(page.frame_locator("#heads-frame").locator("body")).to_contain_text("house")
    page.click("#heads-close")


def test_names_are_coloured_by_kind(page: Page) -> None:
    page.select_option("#model", "ner")
    expect(page.locator("#read-beside")).to_be_hidden()
    page.fill("#read-text", "🙂 a very green old house\na black tree")
    expect(page.locator("#found mark")).to_have_count(2)
    assert page.locator("#found mark .kind").all_text_contents() == ["good", "bad"]
    assert page.evaluate("document.querySelector('#found mark').firstChild.data") == "green old"
    colours = page.evaluate(
        "[...document.querySelectorAll('#found mark')].map(mark => getComputedStyle(mark).backgroundColor)"
    )
    assert len(set(colours)) == 2
    page.fill("#read-text", "tall house")
    expect(page.locator("#found .hint")).to_have_text("No names were found.")


def test_an_answer_is_marked_in_its_paragraph(page: Page) -> None:
    page.select_option("#model", "qa")
    page.fill("#read-second", "a very tall tree is green house")
    page.fill("#read-text", "which colour")
    expect(page.locator("#found mark")).to_have_text("green")
    expect(page.locator("#found .answered")).to_have_text("a very tall tree is green house")
    expect(page.locator("#found .share .label")).to_have_text("green")


def test_what_is_typed_is_text_whatever_it_is(page: Page) -> None:
    for model in ("sentiment", "ner"):
        page.select_option("#model", model)
        page.fill("#read-text", f"{HOSTILE}\ngreen {HOSTILE}")
        expect(page.locator("#found").locator(".of, .named").first).to_contain_text("<script>")
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("window.hit") is None


def test_models_that_write_and_read_take_turns(page: Page) -> None:
    page.fill("#read-text", "grey tree")
    expect(page.locator("#found .share")).to_have_count(2)
    page.select_option("#model", "numbers")
    expect(page.locator("#found")).to_be_hidden()
    page.fill("#typed", "drei sechs")
    expect(page.locator("#translation .line")).to_have_text("three six")
    page.select_option("#model", "sentiment")
    expect(page.locator("#found .share")).to_have_count(2)
    expect(page.locator("#what")).to_have_text("labels texts")


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_screen(browser: Browser, found: LiveServer, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(found.address)
    for model, text in (
        ("sentiment", "green " * 30),
        ("ner", "greengreygreen" * 20 + " black"),
        ("qa", "which colour"),
    ):
        page.select_option("#model", model)
        if model == "qa":
            page.fill("#read-second", "tree " * 40 + "green house")
        page.fill("#read-text", text)
        expect(page.locator("#found").locator(".share, mark").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_a_folder_of_vectors_compares_lines(browser: Browser, readers: dict[str, Path], tmp_path: Path) -> None:
    encoder = tmp_path / "encoder"
    write_encoder(readers["sentiment"], encoder)
    with run_server({"encoder": encoder}) as server:
        page = browser.new_page()
        page.goto(server.address)
        page.fill("#read-text", "a red house\na red house\ngrey tree")
        expect(page.locator("#found .share .score")).to_have_count(2)
        same, other = (float(each) for each in page.locator("#found .share .score").all_text_contents())
        assert same == 1.0 > other
        page.close()


def write_encoder(run: Path, out: Path) -> None:
    """The BERT of a run, without its head."""
    from regard.nn.build import build_bert
    from regard.tasks.encoder.config import EncoderRecipe
    from regard.tasks.encoder.run_folder import open_texts, write_texts

    opened = open_texts(run)
    tokenizer = opened.tokenizer()
    bare = build_bert(opened.recipe.model, "none", tokenizer.size, tokenizer.padding)
    bare.bert.load_state_dict(opened.model().bert.state_dict())
    write_texts(out, EncoderRecipe("encoder", opened.recipe.model), bare, tokenizer, [], "# Encoder\n")
