"""The page at `/`, in a real browser."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from support.live_server import LiveServer, PausedModel, run_server, wait_until

expect.set_options(timeout=15_000)  # a machine may be busy with other tests
HOSTILE = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"


class Opened:
    """A page, its console output and its requests."""

    def __init__(self, browser: Browser, server: LiveServer, **options) -> None:
        self.page: Page = browser.new_page(**options)
        self.page.set_default_timeout(15_000)
        self.console: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.console.append(message.text))
        self.page.on("pageerror", lambda problem: self.console.append(str(problem)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(server.address)
        # before the models are loaded, the file input has no listener
        self.page.wait_for_selector(":is(#main, #token, #problem):not([hidden])")

    def words(self, side: str, text: str):
        container = "#source-words" if side == "source" else "#translation .line"
        return self.page.locator(f"{container} .word", has_text=re.compile(f"^{re.escape(text)}$"))

    def highlighted(self, side: str) -> dict[str, float]:
        """The highlighted words of a side, and their strength."""
        container = "#source-words" if side == "source" else "#translation"
        words = self.page.evaluate(
            "container => [...document.querySelectorAll(container + ' .word')].map(word =>"
            " [word.textContent, Number(word.style.getPropertyValue('--strength'))])",
            container,
        )
        return {word: strength for word, strength in words if strength > 0}

    def translation(self) -> list[str]:
        return self.page.locator("#translation .line").all_text_contents()


@pytest.fixture
def opened(browser: Browser, server: LiveServer) -> Iterator[Opened]:
    """The page; it must print nothing on its console, and send requests to its server only."""
    opened = Opened(browser, server)
    yield opened
    assert opened.console == []
    assert all(url.startswith((server.address, "blob:")) for url in opened.requests)
    opened.page.close()


def test_typing_shows_translation_and_alignment(opened: Opened) -> None:
    page = opened.page
    page.locator("#source-text").press_sequentially("drei sechs", delay=5)
    expect(page.locator("#translation .line")).to_have_text("three six")
    opened.words("target", "six").hover()
    strengths = opened.highlighted("source")
    assert max(strengths, key=strengths.__getitem__) == "sechs"
    expect(page.locator("#alignment-status")).to_contain_text("“six” attends to sechs")
    page.mouse.move(2, 2)
    assert opened.highlighted("source") == {}
    box = opened.words("source", "drei").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    strengths = opened.highlighted("target")
    assert max(strengths, key=strengths.__getitem__) == "three"
    expect(page.locator("#alignment-status")).to_contain_text("“drei” receives attention from three")


def test_words_are_selected_with_the_keyboard(opened: Opened) -> None:
    page = opened.page
    page.fill("#source-text", "eins zwei")
    expect(page.locator("#translation .line")).to_have_text("one two")
    page.locator("#translation .word").first.focus()
    page.keyboard.press("ArrowRight")
    assert max(opened.highlighted("source")) == "zwei"
    page.focus("#source-text")
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#alignment-status")).to_contain_text("“eins” receives attention from one")


def test_the_text_area_is_aligned_with_the_highlighted_words(opened: Opened) -> None:
    """The text area and the words behind it have the same line breaks."""
    page = opened.page
    page.set_viewport_size({"width": 390, "height": 844})
    page.fill("#source-text", "eins zwei drei vier fünf sechs sieben " * 6 + "\nzwei")
    heights = page.evaluate("[document.getElementById('source-text'), document.getElementById('source-words')]"
                            ".map(area => [area.clientWidth, area.scrollHeight])")  # fmt: skip
    assert heights[0] == heights[1]


def test_outdated_requests_are_aborted(opened: Opened) -> None:
    page = opened.page
    page.locator("#source-text").press_sequentially("eins zwei drei vier fünf sechs sieben", delay=10)
    expect(page.locator("#translation .line")).to_have_text("one two three four five six seven")
    assert sum(url.endswith("/translate") for url in opened.requests) < 20
    page.fill("#source-text", "")
    expect(page.locator("#translation")).to_be_empty()
    assert page.locator("#show-attention").is_disabled()


def test_the_first_example_is_translated_and_a_word_highlighted(opened: Opened) -> None:
    page = opened.page
    example = page.locator("#examples button").first.text_content()
    expect(page.locator("#source-text")).to_have_value(example)
    expect(page.locator("#translation .word.selected")).to_have_count(1)
    assert opened.highlighted("source")
    expect(page.locator("#alignment-status")).to_contain_text("attends to")
    expect(page.locator("#alignment-hint")).to_have_text(
        "Hover or tap a word to see which source words it attends to."
    )
    page.click("#source-text")
    page.keyboard.type("sechs")  # replaces the example
    expect(page.locator("#source-text")).to_have_value("sechs")
    expect(page.locator("#translation .line")).to_have_text("six")
    page.click("#source-text")
    page.keyboard.press("End")
    page.keyboard.type(" drei")
    expect(page.locator("#source-text")).to_have_value("sechs drei")


def test_the_attention_page_is_of_the_line_last_pointed_at(opened: Opened) -> None:
    page = opened.page
    page.fill("#source-text", "eins\n\nzwei drei\nvier")
    button = page.locator("#show-attention")
    expect(button).to_have_text("Attention of line 4")  # the line of the caret
    opened.words("target", "one").hover()
    expect(button).to_have_text("Attention of line 1")
    box = opened.words("source", "drei").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    expect(button).to_have_text("Attention of line 3")
    button.click()
    expect(page.locator("#attention-title")).to_have_text("Attention: “zwei drei”")
    page.click("#attention-close")
    page.fill("#source-text", "zwei")
    expect(button).to_have_text("Show attention")


VISITORS = {
    "Donald Trump zählt eins zwei drei": ["Donald", "Trump", "zählt"],
    "How many are sieben and vier?": ["How", "many", "are", "and", "?"],
    "שלום עולם, vier": ["שלום", "עולם", ","],
    "fünf 🙂 sechs 👩‍👩‍👧": ["🙂", "👩‍👩‍👧"],
    "3 plus 4 = sieben": ["3", "plus", "4", "="],
    "einz tswei drei": ["einz", "tswei"],
    "Eins ZWEI vier": ["Eins", "ZWEI"],
    "我有四只猫 sechs": ["我有四只猫"],
    "www.example.de/eins vier@fünf.de (zwei)": ["www.example.de/eins", "vier@fünf.de", "(", ")"],
    "<b>drei</b> & 'vier'": ["<", "b", ">", "</", "b", ">", "&", "'", "'"],
}
"""Sentences that visitors type, and their words that are not in the vocabulary of number words."""


def test_unknown_words_of_sentences_typed_by_visitors(opened: Opened) -> None:
    page = opened.page
    for sentence, unknown in VISITORS.items():
        page.fill("#source-text", sentence)
        listed = ", ".join(list(dict.fromkeys(unknown))[:8])
        expect(page.locator("#unknown-words")).to_contain_text(f"in this model's vocabulary: {listed}")
        # an emoji may be several tokens, each underlined
        underlined = page.locator("#source-words .unknown").all_text_contents()
        assert "".join(underlined) == "".join(unknown)
    page.fill("#source-text", "\n".join(VISITORS))
    everything = "".join(word for unknown in VISITORS.values() for word in unknown)
    expect(page.locator("#unknown-words")).to_contain_text("vocabulary: Donald, Trump, zählt, How")
    assert "".join(page.locator("#source-words .unknown").all_text_contents()) == everything
    underline = "getComputedStyle(document.querySelector('#source-words .unknown')).textDecorationStyle"
    assert page.evaluate(underline) == "dotted"
    page.fill("#source-text", "eins zwei")
    expect(page.locator("#unknown-words")).to_be_hidden()


def test_lines_nbest_beam_and_examples(opened: Opened) -> None:
    page = opened.page
    page.fill("#source-text", "eins\n\nzwei drei")
    expect(page.locator("#translation .line")).to_have_text(["one", "", "two three"])
    page.select_option("#nbest", "3")
    expect(page.locator("#translation .alternatives")).to_have_count(2)
    first = page.locator("#translation .alternatives").first
    expect(first.locator("li")).to_have_count(3)
    expect(first.locator("li").first).to_have_text(re.compile(r"^1\.one-?\d+\.\d\d$"))
    expect(page.locator("#translation .alternatives-heading").first).to_have_text("log-prob per token")
    with page.expect_request("**/translate") as request:
        page.select_option("#beam", "8")
    assert request.value.post_data_json["beam"] == 8
    page.select_option("#nbest", "1")
    example = page.locator("#examples button").first
    text = example.text_content()
    example.click()
    assert page.input_value("#source-text") == text
    expect(page.locator("#translation .word").first).to_be_visible()
    page.click("#clear")
    expect(page.locator("#source-text")).to_have_value("")


def test_the_attention_page_is_sandboxed(opened: Opened) -> None:
    page = opened.page
    page.fill("#source-text", "vier fünf")
    expect(page.locator("#translation .line")).to_have_text("four five")
    page.click("#show-attention")
    view = page.frame_locator("#attention-frame")
    expect(view.locator("body")).to_contain_text("vier")
    expect(view.locator("canvas").first).to_be_visible()
    assert page.get_attribute("#attention-frame", "sandbox") == "allow-scripts allow-downloads allow-modals"
    assert page.frames[1].evaluate("self.origin") == "null"
    expect(view.locator("h1")).to_be_hidden()  # the dialog has a title
    expect(page.locator("#attention-close")).to_be_focused()
    assert page.get_attribute("#attention-tab", "href").startswith("/attention/")
    page.click("#attention-close")
    expect(page.locator("#attention")).to_be_hidden()


def test_a_file_is_translated_line_by_line(opened: Opened, tmp_path: Path) -> None:
    page = opened.page
    german, english = ["eins", "zwei drei", "", "sieben"], ["one", "two three", "", "seven"]
    for ending, name in (("\n", "with.de"), ("", "without.de")):
        (tmp_path / name).write_text("\n".join(german * 40) + ending, "utf-8")
        page.set_input_files("#file-input", tmp_path / name)
        expect(page.locator("#file-name")).to_have_text(name)
        with page.expect_download() as download:
            page.click("#download")
        assert download.value.suggested_filename == name.replace(".de", ".en.de")
        assert Path(download.value.path()).read_text("utf-8") == "\n".join(english * 40) + ending
        expect(page.locator("#file-status")).to_have_text("160 of 160 lines")
    (tmp_path / "windows.txt").write_bytes(b"eins\r\nzwei\r\n")
    page.set_input_files("#file-input", tmp_path / "windows.txt")
    with page.expect_download() as download:
        page.click("#download")
    assert Path(download.value.path()).read_bytes() == b"one\ntwo\n"


def test_an_invalid_file_shows_an_error(opened: Opened, tmp_path: Path) -> None:
    page = opened.page
    for content, sentence in (
        ("fünf".encode("latin-1"), "This file is not UTF-8 text."),
        (b"", "This file is empty."),
        (b"eins\n" + b"x" * 6000, "Line 2 has more than 5000 characters."),
    ):
        (tmp_path / "wrong.txt").write_bytes(content)
        page.set_input_files("#file-input", tmp_path / "wrong.txt")
        expect(page.locator("#file-problem")).to_have_text(sentence)
        expect(page.locator("#download")).to_be_hidden()


def test_a_file_can_be_cancelled(opened: Opened, server: LiveServer, tmp_path: Path) -> None:
    page = opened.page
    (tmp_path / "long.txt").write_text("eins\n" * 300)
    with PausedModel(server.model):
        page.set_input_files("#file-input", tmp_path / "long.txt")
        page.click("#cancel")
        expect(page.locator("#file-problem")).to_have_text("Cancelled; nothing was kept.")
        expect(page.locator("#cancel")).to_be_hidden()


def test_input_is_never_markup(opened: Opened) -> None:
    page = opened.page
    text = f"{HOSTILE}\n👩‍👩‍👧 drei 🙂\nשלום عالم drei"
    page.fill("#source-text", text)
    expect(page.locator("#translation .line")).to_have_count(3)
    assert page.evaluate("document.getElementById('source-words').innerText").rstrip("\u200b\n") == text
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("window.hit") is None
    lines = page.evaluate("[...document.querySelectorAll('#translation .line')].map(line => line.dir)")
    assert lines == ["auto"] * 3


def test_card_and_examples_of_an_untrusted_run_are_text(browser: Browser, run: Path, tmp_path: Path) -> None:
    untrusted = tmp_path / "untrusted"
    shutil.copytree(run, untrusted)
    (untrusted / "README.md").write_text(
        f"# Card {HOSTILE}\n\n| a | b |\n|---|---|\n| `{HOSTILE}` | &lt;i&gt; |\n"
    )
    row = {
        "kind": "valid",
        "step": 1,
        "samples": [{"source": HOSTILE}, {"source": "half \ud800"}, {"source": 5}, 6],
    }
    (untrusted / "metrics.jsonl").write_text(json.dumps(row) + "\n{torn")
    with run_server({HOSTILE: untrusted}) as server:
        opened = Opened(browser, server)
        page = opened.page
        page.click("#card summary")
        expect(page.locator("#card-text h3")).to_have_text(f"Card {HOSTILE}")
        expect(page.locator("#card-text code")).to_have_text(HOSTILE)
        expect(page.locator("#card-text td").last).to_have_text("<i>")
        expect(page.locator("#examples button")).to_have_text([HOSTILE])
        expect(page.locator("#model option")).to_have_text(f"German → English ({HOSTILE})")
        page.locator("#examples button").first.click()
        expect(page.locator("#translation .line")).to_have_count(1)
        assert page.evaluate("window.hit") is None
        assert opened.console == []
        page.close()


def test_a_model_of_the_picture_book_says_what_it_was_trained_on(
    browser: Browser, run: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    config = json.loads((copy / "config.json").read_text("utf-8"))
    config["data"].update(corpus="picturebook", source=None, target=None)
    (copy / "config.json").write_text(json.dumps(config), "utf-8")
    with run_server({"book": copy}) as server:
        opened = Opened(browser, server)
        page = opened.page
        expect(page.locator("#model option")).to_have_text("German → English (book)")
        page.click("#clear")
        placeholder = page.get_attribute("#source-text", "placeholder")
        assert placeholder.startswith("Trained on picture-book German; type a sentence or try an example.")
        page.fill("#source-text", "drei Trump")
        expect(page.locator("#unknown-words")).to_have_text(
            "1 of 2 words is not in this model's vocabulary: Trump. "
            "It was trained on picture-book sentences; try an example."
        )
        assert opened.console == []
        page.close()


def test_errors_are_shown_in_the_panel_they_concern(browser: Browser, run: Path) -> None:
    with run_server({"numbers": run}, queue=1) as server:
        page = Opened(browser, server).page
        page.fill("#source-text", "eins\n" + "x" * 5001)
        expect(page.locator("#translation-problem")).to_have_text("Line 2 has more than 5000 characters.")
        page.fill("#source-text", "eins\nzwei")  # one after another, since the queue's capacity is one
        expect(page.locator("#translation .line")).to_have_text(["one", "two"])
        page.fill("#source-text", "eins. " * 30)
        expect(page.locator("#translation-problem")).to_contain_text(
            "the queue's capacity is 1; send it in pieces."
        )
        with PausedModel(server.model) as held:
            post = (
                "text => void fetch('/translate', {method: 'POST', headers: {'Content-Type': 'application/json'},"
                " body: JSON.stringify({text})})"
            )
            page.evaluate(post, "drei")
            assert held.started.wait(10)
            page.evaluate(post, "vier")
            wait_until(lambda: server.model.queue.waiting == 1)
            page.fill("#source-text", "fünf")
            expect(page.locator("#translation-problem")).to_have_text(
                "The server is busy; trying again in 1 s."
            )
        expect(page.locator("#translation .line")).to_have_text("five")  # after a retry
        expect(page.locator("#translation-problem")).to_be_hidden()
    page.fill("#source-text", "sechs")
    expect(page.locator("#translation-problem")).to_have_text(
        "The server cannot be reached; is it still running?"
    )
    page.close()


def test_the_token_is_requested_and_not_stored(browser: Browser, run: Path) -> None:
    with run_server({"numbers": run}, token="sesame") as server:
        page = Opened(browser, server).page
        expect(page.locator("#token")).to_be_visible()
        expect(page.locator("#main")).to_be_hidden()
        page.fill("#token-input", "open")
        page.keyboard.press("Enter")
        expect(page.locator("#problem")).to_have_text("This is not the server's access token.")
        page.fill("#token-input", "sesame")
        page.keyboard.press("Enter")
        page.fill("#source-text", "eins zwei")
        expect(page.locator("#translation .line")).to_have_text("one two")
        page.click("#show-attention")
        expect(page.frame_locator("#attention-frame").locator("body")).to_contain_text("eins")
        stored = page.evaluate(
            "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
        )
        assert "sesame" not in stored
        page.close()


def test_light_and_dark(browser: Browser, server: LiveServer) -> None:
    page = Opened(browser, server, color_scheme="dark").page
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(colour)
    assert sum(map(int, re.findall(r"\d+", light))) > 600 > 150 > sum(map(int, re.findall(r"\d+", dark)))
    page.click("#theme")
    assert page.evaluate(colour) == dark
    page.reload()
    assert page.evaluate(colour) == dark  # the choice is stored
    page.close()


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_screen(browser: Browser, server: LiveServer, width: int) -> None:
    page = Opened(browser, server, viewport={"width": width, "height": 844}).page
    page.fill(
        "#source-text", "eins zwei drei " * 6 + "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen" * 3
    )
    page.select_option("#nbest", "3")
    expect(page.locator("#translation .alternatives")).to_be_visible()
    page.click("#card summary")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        "[...document.querySelectorAll('main button, main select, main section, .word, summary, main td')].filter(item =>"
        " item.offsetParent && (item.getBoundingClientRect().right > innerWidth + 1"
        " || item.getBoundingClientRect().left < -1)).map(item => item.outerHTML)"
    )
    assert outside == []
    page.close()


def test_every_control_has_an_accessible_name(opened: Opened) -> None:
    opened.page.wait_for_selector("#main:not([hidden])")
    nameless = opened.page.evaluate(
        "[...document.querySelectorAll('button, select, textarea, input, iframe, a[href], progress')].filter(item =>"
        " !(item.textContent.trim() || item.getAttribute('aria-label') || item.getAttribute('aria-labelledby')"
        " || item.title || item.labels?.length)).map(item => item.outerHTML)"
    )
    assert nameless == []
