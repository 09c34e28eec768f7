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
    """A page, what its console said, and where it asked."""

    def __init__(self, browser: Browser, found: LiveServer, **options) -> None:
        self.page: Page = browser.new_page(**options)
        self.page.set_default_timeout(15_000)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda problem: self.said.append(str(problem)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(found.address)
        # A file can be handed to a page that still asks for its models, and nobody listens then.
        self.page.wait_for_selector(":is(#main, #token, #problem):not([hidden])")

    def words(self, side: str, text: str):
        place = "#behind" if side == "source" else "#translation .line"
        return self.page.locator(f"{place} .word", has_text=re.compile(f"^{re.escape(text)}$"))

    def lit(self, side: str) -> dict[str, float]:
        """The words of a side that are lit, and how strongly."""
        place = "#behind" if side == "source" else "#translation"
        found = self.page.evaluate(
            "place => [...document.querySelectorAll(place + ' .word')].map(word =>"
            " [word.textContent, Number(word.style.getPropertyValue('--strength'))])",
            place,
        )
        return {word: strength for word, strength in found if strength > 0}

    def translation(self) -> list[str]:
        return self.page.locator("#translation .line").all_text_contents()


@pytest.fixture
def opened(browser: Browser, server: LiveServer) -> Iterator[Opened]:
    """The page of the usual server; nothing on its console, nothing asked of anyone else."""
    found = Opened(browser, server)
    yield found
    assert found.said == []
    assert all(url.startswith((server.address, "blob:")) for url in found.asked)
    found.page.close()


def test_type_and_see_who_looked_where(opened: Opened) -> None:
    page = opened.page
    page.locator("#typed").press_sequentially("drei sechs", delay=5)
    expect(page.locator("#translation .line")).to_have_text("three six")
    opened.words("target", "six").hover()
    lit = opened.lit("source")
    assert max(lit, key=lit.__getitem__) == "sechs"
    expect(page.locator("#told")).to_contain_text("“six” looked at sechs")
    page.mouse.move(2, 2)
    assert opened.lit("source") == {}
    box = opened.words("source", "drei").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    lit = opened.lit("target")
    assert max(lit, key=lit.__getitem__) == "three"
    expect(page.locator("#told")).to_contain_text("“drei” was looked at by three")


def test_words_can_be_reached_by_keys(opened: Opened) -> None:
    page = opened.page
    page.fill("#typed", "eins zwei")
    expect(page.locator("#translation .line")).to_have_text("one two")
    page.locator("#translation .word").first.focus()
    page.keyboard.press("ArrowRight")
    assert max(opened.lit("source")) == "zwei"
    page.focus("#typed")
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#told")).to_contain_text("“eins” was looked at by one")


def test_what_is_typed_lies_where_the_light_falls(opened: Opened) -> None:
    """The text area and the words behind it break their lines at the same places."""
    page = opened.page
    page.set_viewport_size({"width": 390, "height": 844})
    page.fill("#typed", "eins zwei drei vier fünf sechs sieben " * 6 + "\nzwei")
    heights = page.evaluate("[document.getElementById('typed'), document.getElementById('behind')]"
                            ".map(each => [each.clientWidth, each.scrollHeight])")  # fmt: skip
    assert heights[0] == heights[1]


def test_typing_on_takes_the_earlier_question_back(opened: Opened) -> None:
    page = opened.page
    page.locator("#typed").press_sequentially("eins zwei drei vier fünf sechs sieben", delay=10)
    expect(page.locator("#translation .line")).to_have_text("one two three four five six seven")
    assert sum(url.endswith("/translate") for url in opened.asked) < 20
    page.fill("#typed", "")
    expect(page.locator("#translation")).to_be_empty()
    assert page.locator("#view").is_disabled()


def test_lines_nbest_beam_and_examples(opened: Opened) -> None:
    page = opened.page
    page.fill("#typed", "eins\n\nzwei drei")
    expect(page.locator("#translation .line")).to_have_text(["one", "", "two three"])
    page.select_option("#nbest", "3")
    expect(page.locator("#translation .others")).to_have_count(2)
    expect(page.locator("#translation .others").first.locator("li")).to_have_count(2)
    with page.expect_request("**/translate") as asked:
        page.select_option("#beam", "8")
    assert asked.value.post_data_json["beam"] == 8
    page.select_option("#nbest", "1")
    example = page.locator("#examples button").first
    text = example.text_content()
    example.click()
    assert page.input_value("#typed") == text
    expect(page.locator("#translation .word").first).to_be_visible()
    page.click("#clear")
    expect(page.locator("#typed")).to_have_value("")


def test_the_head_view_opens_without_rights(opened: Opened) -> None:
    page = opened.page
    page.fill("#typed", "vier fünf")
    expect(page.locator("#translation .line")).to_have_text("four five")
    page.click("#view")
    view = page.frame_locator("#heads-frame")
    expect(view.locator("body")).to_contain_text("vier")
    expect(view.locator("canvas").first).to_be_visible()
    assert page.get_attribute("#heads-frame", "sandbox") == "allow-scripts allow-downloads allow-modals"
    assert page.frames[1].evaluate("self.origin") == "null"
    assert page.get_attribute("#heads-tab", "href").startswith("/attention/")
    page.click("#heads-close")
    expect(page.locator("#heads")).to_be_hidden()


def test_a_file_goes_and_comes_back_with_as_many_lines(opened: Opened, tmp_path: Path) -> None:
    page = opened.page
    german, english = ["eins", "zwei drei", "", "sieben"], ["one", "two three", "", "seven"]
    for ending, name in (("\n", "with.de"), ("", "without.de")):
        (tmp_path / name).write_text("\n".join(german * 40) + ending, "utf-8")
        page.set_input_files("#chosen", tmp_path / name)
        expect(page.locator("#file-name")).to_have_text(name)
        with page.expect_download() as download:
            page.click("#download")
        assert download.value.suggested_filename == name.replace(".de", ".en.de")
        assert Path(download.value.path()).read_text("utf-8") == "\n".join(english * 40) + ending
        expect(page.locator("#file-told")).to_have_text("160 of 160 lines")
    (tmp_path / "windows.txt").write_bytes(b"eins\r\nzwei\r\n")
    page.set_input_files("#chosen", tmp_path / "windows.txt")
    with page.expect_download() as download:
        page.click("#download")
    assert Path(download.value.path()).read_bytes() == b"one\ntwo\n"


def test_a_file_that_cannot_be_translated_says_why(opened: Opened, tmp_path: Path) -> None:
    page = opened.page
    for content, sentence in (
        ("fünf".encode("latin-1"), "This file is not UTF-8 text."),
        (b"", "This file is empty."),
        (b"eins\n" + b"x" * 6000, "Line 2 has more than 5000 characters."),
    ):
        (tmp_path / "wrong.txt").write_bytes(content)
        page.set_input_files("#chosen", tmp_path / "wrong.txt")
        expect(page.locator("#file-problem")).to_have_text(sentence)
        expect(page.locator("#download")).to_be_hidden()


def test_a_file_can_be_cancelled(opened: Opened, server: LiveServer, tmp_path: Path) -> None:
    page = opened.page
    (tmp_path / "long.txt").write_text("eins\n" * 300)
    with PausedModel(server.model):
        page.set_input_files("#chosen", tmp_path / "long.txt")
        page.click("#cancel")
        expect(page.locator("#file-problem")).to_have_text("Cancelled; nothing was kept.")
        expect(page.locator("#cancel")).to_be_hidden()


def test_what_is_typed_is_text_whatever_it_is(opened: Opened) -> None:
    page = opened.page
    text = f"{HOSTILE}\n👩‍👩‍👧 drei 🙂\nשלום عالم drei"
    page.fill("#typed", text)
    expect(page.locator("#translation .line")).to_have_count(3)
    assert page.evaluate("document.getElementById('behind').innerText").rstrip("\u200b\n") == text
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("window.hit") is None
    lines = page.evaluate("[...document.querySelectorAll('#translation .line')].map(line => line.dir)")
    assert lines == ["auto"] * 3


def test_a_strangers_card_and_examples_are_text(browser: Browser, run: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange"
    shutil.copytree(run, strange)
    (strange / "README.md").write_text(
        f"# Card {HOSTILE}\n\n| a | b |\n|---|---|\n| `{HOSTILE}` | &lt;i&gt; |\n"
    )
    row = {
        "kind": "valid",
        "step": 1,
        "samples": [{"source": HOSTILE}, {"source": "half \ud800"}, {"source": 5}, 6],
    }
    (strange / "metrics.jsonl").write_text(json.dumps(row) + "\n{torn")
    with run_server({HOSTILE: strange}) as found:
        opened = Opened(browser, found)
        page = opened.page
        page.click("#card summary")
        expect(page.locator("#card-text h3")).to_have_text(f"Card {HOSTILE}")
        expect(page.locator("#card-text code")).to_have_text(HOSTILE)
        expect(page.locator("#card-text td").last).to_have_text("<i>")
        expect(page.locator("#examples button")).to_have_text([HOSTILE])
        expect(page.locator("#model option")).to_have_text(HOSTILE)
        page.locator("#examples button").first.click()
        expect(page.locator("#translation .line")).to_have_count(1)
        assert page.evaluate("window.hit") is None
        assert opened.said == []
        page.close()


def test_errors_stand_where_they_arose(browser: Browser, run: Path) -> None:
    with run_server({"numbers": run}, queue=1) as found:
        page = Opened(browser, found).page
        page.fill("#typed", "eins\n" + "x" * 5001)
        expect(page.locator("#translation-problem")).to_have_text("Line 2 has more than 5000 characters.")
        page.fill("#typed", "eins\nzwei")  # one after another, since the queue has room for one
        expect(page.locator("#translation .line")).to_have_text(["one", "two"])
        page.fill("#typed", "eins. " * 30)
        expect(page.locator("#translation-problem")).to_contain_text(
            "the queue has room for 1; send it in pieces."
        )
        with PausedModel(found.model) as held:
            asking = (
                "text => void fetch('/translate', {method: 'POST', headers: {'Content-Type': 'application/json'},"
                " body: JSON.stringify({text})})"
            )
            page.evaluate(asking, "drei")
            assert held.started.wait(10)
            page.evaluate(asking, "vier")
            wait_until(lambda: found.model.batcher.waiting == 1)
            page.fill("#typed", "fünf")
            expect(page.locator("#translation-problem")).to_have_text(
                "The server is busy; trying again in 1 s."
            )
        expect(page.locator("#translation .line")).to_have_text("five")  # it tried again by itself
        expect(page.locator("#translation-problem")).to_be_hidden()
    page.fill("#typed", "sechs")
    expect(page.locator("#translation-problem")).to_have_text(
        "The server cannot be reached; is it still running?"
    )
    page.close()


def test_a_token_is_asked_for_and_kept_nowhere(browser: Browser, run: Path) -> None:
    with run_server({"numbers": run}, token="sesame") as found:
        page = Opened(browser, found).page
        expect(page.locator("#token")).to_be_visible()
        expect(page.locator("#main")).to_be_hidden()
        page.fill("#token-word", "open")
        page.keyboard.press("Enter")
        expect(page.locator("#problem")).to_have_text("This is not the token the server wants.")
        page.fill("#token-word", "sesame")
        page.keyboard.press("Enter")
        page.fill("#typed", "eins zwei")
        expect(page.locator("#translation .line")).to_have_text("one two")
        page.click("#view")
        expect(page.frame_locator("#heads-frame").locator("body")).to_contain_text("eins")
        kept = page.evaluate(
            "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
        )
        assert "sesame" not in kept
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
    assert page.evaluate(colour) == dark  # the switch is remembered
    page.close()


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_screen(browser: Browser, server: LiveServer, width: int) -> None:
    page = Opened(browser, server, viewport={"width": width, "height": 844}).page
    page.fill(
        "#typed", "eins zwei drei " * 6 + "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen" * 3
    )
    page.select_option("#nbest", "3")
    expect(page.locator("#translation .others")).to_be_visible()
    page.click("#card summary")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        "[...document.querySelectorAll('main button, main select, main section, .word, summary, main td')].filter(each =>"
        " each.offsetParent && (each.getBoundingClientRect().right > innerWidth + 1"
        " || each.getBoundingClientRect().left < -1)).map(each => each.outerHTML)"
    )
    assert outside == []
    page.close()


def test_everything_has_a_name_for_those_who_listen(opened: Opened) -> None:
    opened.page.wait_for_selector("#main:not([hidden])")
    nameless = opened.page.evaluate(
        "[...document.querySelectorAll('button, select, textarea, input, iframe, a[href], progress')].filter(each =>"
        " !(each.textContent.trim() || each.getAttribute('aria-label') || each.getAttribute('aria-labelledby')"
        " || each.title || each.labels?.length)).map(each => each.outerHTML)"
    )
    assert nameless == []
