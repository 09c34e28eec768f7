"""The viewer in a real browser, from disk and without a network."""

from collections.abc import Callable

import pytest
from support import attention_examples
from support.chromium import OpenedPage

from regard.viz.analysis import distance, entropy
from regard.viz.html_page import attention_page

Open = Callable[..., OpenedPage]


@pytest.fixture
def small(opened: Open) -> OpenedPage:
    return opened(attention_page(attention_examples.small()))


def pressed(small: OpenedPage) -> list[str]:
    return small.page.locator("#heads .head[aria-pressed=true]").all_text_contents()


def test_hovering_a_word_highlights_what_it_attends_to(small: OpenedPage) -> None:
    small.page.select_option("#head", "0")
    small.word("left", "grass").hover()
    assert small.highlighted() == {"Gras": 0.8, "·hüpfer": 0.2}
    assert small.status("words") == "“grass” attends to “Gras” 80%, “·hüpfer” 20%"
    small.word("right", "Gras").hover()
    assert small.highlighted() == {"the": 0.1, "grass": 0.8, "·hopper": 0.3}
    assert small.status("words") == "“Gras” receives attention from “grass” 80%, “·hopper” 30%, “the” 10%"
    small.page.mouse.move(5, 5)
    assert small.highlighted() == {}
    assert small.status("words") == ""


def test_the_mean_of_the_heads_is_shown_first(small: OpenedPage) -> None:
    selected = small.page.locator("#layer option:checked")
    assert selected.text_content() == "Decoder layer 1 · cross-attention"
    assert selected.get_attribute("title") == "decoder.0.cross"
    small.word("left", "sleeps").hover()
    assert small.highlighted() == {"Gras": 0.5, "schläft": 0.5}


def test_the_clearest_word_off_the_diagonal_is_highlighted_first(opened: Open) -> None:
    shown = opened(attention_page(attention_examples.small()))
    assert shown.status("words").startswith("“sleeps” attends to “Gras” 50%")
    shown.page.select_option("#head", "0")  # nearly diagonal
    assert shown.status("words").startswith("“·hopper” attends to “·hüpfer” 70%, “Gras” 30%")
    straight = opened(attention_page(attention_examples.of_words("a b c", "d e f")))
    assert straight.highlighted() == {}


def test_unknown_words_have_their_spelling(opened: Open) -> None:
    shown = opened(attention_page(attention_examples.with_unknown()))
    word = shown.word("right", "hüpfer")
    assert (word.text_content(), word.get_attribute("class").split()[:2]) == ("·hüpfer", ["word", "unknown"])
    assert word.get_attribute("title") == "<unk>: not in the model's vocabulary"
    shown.page.check("#in-words")
    assert shown.word("right", "Grashüpfer").get_attribute("title") == "<unk>: not in the model's vocabulary"
    assert shown.page.locator(".word.unknown").count() == 1


def test_the_notes_on_reading_can_be_closed(small: OpenedPage) -> None:
    assert small.page.locator("#reading li").count() == 3
    small.page.click("#reading-close")
    assert small.page.locator("#reading").count() == 0
    assert small.page.evaluate("document.activeElement.id") == "layer"


def test_words_and_tokens_are_no_choice_if_they_are_the_same(opened: Open, small: OpenedPage) -> None:
    assert small.page.is_enabled("#in-words")
    assert opened(attention_page(attention_examples.of_words("a b", "c d"))).page.is_disabled("#in-words")


def test_a_framed_page_has_no_heading_and_the_theme_of_its_frame(opened: Open) -> None:
    shown = opened(attention_page(attention_examples.small()), color_scheme="light")
    assert shown.page.is_visible("h1")
    shown.page.goto(f"{shown.page.url}#theme=dark")
    shown.page.reload()
    assert not shown.page.is_visible("h1")
    assert luminance(shown) < 60


def test_subwords_can_be_joined(small: OpenedPage) -> None:
    small.page.select_option("#head", "1")
    small.page.check("#in-words")
    small.word("left", "grasshopper").hover()
    joined = attention_examples.small().in_words().layers["decoder.0.cross"].weights[1, 1]
    assert small.highlighted() == pytest.approx({"Grashüpfer": joined[1], "schläft": joined[2]}, abs=1e-3)
    assert "in words" in small.page.locator("#statistics .hint").text_content()


def test_tapping_a_word_works_like_hovering(opened: Open) -> None:
    touched = opened(
        attention_page(attention_examples.small(), head=0),
        has_touch=True,
        viewport={"width": 390, "height": 844},
    )
    touched.word("left", "sleeps").tap()
    assert touched.highlighted() == {"schläft": 1.0}


def test_words_with_the_keyboard(small: OpenedPage) -> None:
    small.page.select_option("#head", "0")
    small.word("left", "the").focus()
    assert small.status("words") == "“the” attends to “Der” 90%, “Gras” 10%"
    small.page.keyboard.press("ArrowRight")
    assert small.status("words").startswith("“grass” attends to")
    small.page.keyboard.press("ArrowUp")
    assert small.status("words").startswith("“Gras” receives attention from")
    small.page.keyboard.press("End")
    assert small.status("words").startswith("“</s>” receives attention from “</s>” 75%")
    assert small.page.locator(".word[tabindex='0']").count() == 2  # one tab stop per text
    small.page.keyboard.press("Escape")
    assert small.status("words") == ""


def test_heat_map_with_pointer_and_keyboard(small: OpenedPage) -> None:
    small.page.select_option("#head", "0")
    canvas = small.page.locator("#heat-canvas")
    canvas.focus()
    small.page.keyboard.press("ArrowRight")
    assert small.status("heat") == "“the” attends to “Der”: 0.900"
    small.page.keyboard.press("ArrowRight")
    small.page.keyboard.press("ArrowDown")
    assert small.status("heat") == "“grass” attends to “Gras”: 0.800"
    edge, cell = small.page.evaluate("[heat.edge, heat.drawn]")
    canvas.hover(position={"x": edge["left"] + 3.5 * cell, "y": edge["top"] + 4.5 * cell})
    assert small.status("heat") == "“</s>” attends to “schläft”: 0.250"


def test_heads_are_enabled_one_by_one_and_all_at_once(small: OpenedPage) -> None:
    assert pressed(small) == ["0", "1"]
    canvas = small.page.locator("#lines-canvas")
    both = small.drawn_pixels("#lines-canvas")
    small.page.click("#heads .head >> nth=1")
    assert pressed(small) == ["0"]
    assert small.drawn_pixels("#lines-canvas") < both
    canvas.focus()
    small.page.keyboard.press("ArrowDown")
    assert small.status("lines") == "“the” attends to “Der” 90% (head 0), “Gras” 10% (head 0)"
    small.page.click("text=none")
    assert pressed(small) == []
    assert small.status("lines") == "“the” attends to no token with a weight of 5% or more"
    small.page.locator("#heads .head >> nth=1").focus()
    small.page.keyboard.press("Space")
    assert pressed(small) == ["1"]
    assert small.status("lines") == "“the” attends to “</s>” 90% (head 1), “schläft” 10% (head 1)"
    small.page.click("#heads >> text=all")
    assert pressed(small) == ["0", "1"]


def test_hovering_a_token_shows_only_its_lines(small: OpenedPage) -> None:
    all_lines = small.drawn_pixels("#lines-canvas")
    box = small.page.locator("#lines-canvas").bounding_box()
    small.page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 26 + 3.5 * 25)
    assert small.status("lines").startswith("“schläft” receives attention from “sleeps” 100% (head 0)")
    assert small.drawn_pixels("#lines-canvas") < all_lines


def test_the_grid_opens_a_head(small: OpenedPage) -> None:
    assert small.page.locator(".thumb").count() == 2 * 2 + 1  # and the rollout
    small.page.click(".thumb[aria-label='Encoder layer 1 · self-attention, head 1']")
    assert small.page.locator("#heat-what").text_content() == "Encoder layer 1 · self-attention, head 1"
    assert small.page.locator("#heat-what").get_attribute("title") == "encoder.0.self"
    assert small.page.evaluate("document.activeElement.id") == "heat-canvas"
    assert pressed(small) == ["1"]
    small.page.click(".thumb[aria-label^='Encoder · rollout']")
    small.page.keyboard.press("ArrowRight")
    small.page.keyboard.press("ArrowRight")
    # half identity, half the mean of both heads
    assert small.status("heat") == "“Der” attends to “Gras”: 0.025"


def test_statistics_match_python(small: OpenedPage) -> None:
    rows = [row.locator("td").all_text_contents() for row in small.page.locator("#statistics tbody tr").all()]
    assert [row[:2] for row in rows] == [
        [title, head]
        for title in ("Encoder layer 1 · self-attention", "Decoder layer 1 · cross-attention")
        for head in "01"
    ]
    weights = attention_examples.small().layers["encoder.0.self"].weights
    expected = zip(entropy(weights), distance(weights), strict=True)
    assert [row[2:] for row in rows[:2]] == [[f"{bits:.2f}", f"{far:.2f}"] for bits, far in expected]


def test_page_opens_at_the_requested_head(opened: Open) -> None:
    shown = opened(attention_page(attention_examples.small(), "encoder.0.self", 1, words=True))
    assert shown.page.locator("#heat-what").text_content() == "Encoder layer 1 · self-attention, head 1"
    assert shown.page.is_checked("#in-words")


HOSTILE = [
    "<script>alert(1)</script>", "</script><script>alert(2)</script>", "<img src=x onerror=alert(3)>", "{{script}}",
    "\\u003c!--", "<!--<script>", "🙂👩‍👩‍👧", "שלום", "مرحبا", "‮turned", '"quoted"&amp;',
]  # fmt: skip


def test_any_text_is_escaped(opened: Open) -> None:
    text = " ".join(HOSTILE).replace("<img src=x", "<img/src=x")
    shown = opened(attention_page(attention_examples.of_words(text, text)))
    assert [
        word.text_content() for word in shown.page.locator("[aria-labelledby=text-left] .word").all()
    ] == text.split()
    shown.page.locator("[aria-labelledby=text-left] .word").first.hover()
    assert shown.status("words").startswith(
        "“<script>alert(1)</script>” attends to “<script>alert(1)</script>” 100%"
    )
    assert shown.page.locator("img").count() == 0
    assert shown.page.locator("script").count() == 2  # the data and the viewer


def test_right_to_left_text(opened: Open) -> None:
    shown = opened(attention_page(attention_examples.of_words("שלום עולם טוב", "hello good world")))
    first, second = (
        shown.page.locator("[aria-labelledby=text-right] .word").nth(n).bounding_box() for n in (0, 1)
    )
    assert first["x"] > second["x"]
    shown.page.locator("[aria-labelledby=text-right] .word").first.focus()
    shown.page.keyboard.press("ArrowLeft")  # forward in reading direction
    assert shown.status("words").startswith("“עולם”")


def test_five_hundred_tokens_stay_usable(opened: Open) -> None:
    shown = opened(attention_page(attention_examples.random(tokens=500, layers=4, heads=4)))
    assert shown.cpu_seconds() < 2
    assert shown.page.evaluate("document.querySelectorAll('*').length") < 3000
    for name in ("heat", "lines"):
        size = shown.page.eval_on_selector(f"#{name}-canvas", "c => c.width * c.height")
        assert size < 2e6
    shown.page.locator("#heat-canvas").focus()
    shown.page.keyboard.press("End")
    shown.page.keyboard.press("End")
    shown.page.keyboard.press("PageDown")
    assert shown.status("heat").startswith("“w499” attends to “r499”")
    assert shown.page.eval_on_selector("#heat-scroller", "s => s.scrollLeft > 5000 && s.scrollTop > 5000")
    shown.page.locator("#lines-canvas").focus()
    shown.page.keyboard.press("End")
    assert shown.status("lines").startswith("“w499” attends to")
    before = shown.cpu_seconds()
    shown.page.evaluate("select({ layer: 1 })")
    assert shown.cpu_seconds() - before < 1.5
    assert shown.fits()


def luminance(shown: OpenedPage) -> float:
    return (
        sum(map(int, shown.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)"))) / 3
    )


def test_light_and_dark_theme(opened: Open) -> None:
    light, dark = (
        opened(attention_page(attention_examples.small()), color_scheme=scheme) for scheme in ("light", "dark")
    )
    assert luminance(light) > 200
    assert luminance(dark) < 60
    light.page.click("#theme")
    assert luminance(light) < 60
    corner = (
        "c => Array.from(c.getContext('2d').getImageData(0, 0, 1, 1).data.slice(0, 3)).reduce((a, b) => a + b)"
    )
    assert light.page.eval_on_selector("#ramp", corner) < 200  # canvases follow
    light.page.click("#theme")
    assert luminance(light) > 200


@pytest.mark.parametrize("width", [390, 768])
def test_nothing_overflows(opened: Open, width: int) -> None:
    long = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen" * 2
    shown = opened(
        attention_page(attention_examples.of_words(f"{long} a b", f"x {long}")),
        viewport={"width": width, "height": 844},
    )
    assert shown.fits()
    many = opened(
        attention_page(attention_examples.random(tokens=9, layers=1, heads=8)),
        viewport={"width": width, "height": 844},
    )
    assert many.fits()
    inside = "s => s.scrollWidth <= s.clientWidth"
    assert many.page.eval_on_selector("#grid-scroller", inside)
    assert many.page.eval_on_selector("#statistics-scroller", inside)
    bars = many.page.eval_on_selector_all("td:nth-child(4) .bar", "bars => bars.map(b => b.clientWidth)")
    assert max(bars) > 1.2 * min(bars)  # bars are proportional on a narrow screen too


def test_printing_shows_everything_in_the_light_theme(opened: Open) -> None:
    shown = opened(attention_page(attention_examples.random(tokens=40, layers=2, heads=3)), color_scheme="dark")
    shown.page.emulate_media(media="print")
    shown.wait_until("heat.view.canvas.clientHeight >= heat.view.size.height - 1")
    assert not shown.page.is_visible("#controls")
    assert shown.page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert shown.page.eval_on_selector("#lines-canvas", "c => c.clientHeight >= lines.view.size.height - 1")
    assert all(shown.page.eval_on_selector_all(".thumb canvas", "all => all.map(c => c.getContext('2d').getImageData(32, 32, 1, 1).data[3])"))  # fmt: skip


def test_every_control_has_a_name(small: OpenedPage) -> None:
    nameless = small.page.evaluate(
        """Array.from(document.querySelectorAll('button, select, input, [tabindex]')).filter(e =>
            !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim() || e.labels?.length)
        ).map(e => e.outerHTML)"""
    )
    assert nameless == []


def test_notebook_iframe_works(opened: Open) -> None:
    shown = opened(f"<!doctype html><meta charset=utf-8><body>{attention_examples.small()._repr_html_()}")
    frame = shown.page.frame_locator("iframe")
    frame.locator("[aria-labelledby=text-left] .word").nth(3).hover()
    assert frame.locator("#words-status").text_content() == "“sleeps” attends to “Gras” 50%, “schläft” 50%"
