"""The viewer in a real browser, from disk and without a network."""

from collections.abc import Callable

import pytest
from support import made_by_hand
from support.chromium import Opened

from regard.viz.measures import distance, entropy
from regard.viz.page import page

Open = Callable[..., Opened]


@pytest.fixture
def small(opened: Open) -> Opened:
    return opened(page(made_by_hand.small()))


def pressed(small: Opened) -> list[str]:
    return small.page.locator("#heads .head[aria-pressed=true]").all_text_contents()


def test_hovering_a_word_lights_what_it_looked_at(small: Opened) -> None:
    small.page.select_option("#head", "0")
    small.word("left", "grass").hover()
    assert small.lit() == {"Gras": 0.8, "·hüpfer": 0.2}
    assert small.told("words") == "“grass” looks at “Gras” 80%, “·hüpfer” 20%"
    small.word("right", "Gras").hover()
    assert small.lit() == {"the": 0.1, "grass": 0.8, "·hopper": 0.3}
    assert small.told("words") == "“Gras” is looked at by “grass” 80%, “·hopper” 30%, “the” 10%"
    small.page.mouse.move(5, 5)
    assert small.lit() == {}
    assert small.told("words") == ""


def test_the_mean_of_the_heads_is_shown_first(small: Opened) -> None:
    assert small.page.locator("#layer option:checked").text_content() == "decoder.0.cross"
    small.word("left", "sleeps").hover()
    assert small.lit() == {"Gras": 0.5, "schläft": 0.5}


def test_subwords_are_joined_on_request(small: Opened) -> None:
    small.page.select_option("#head", "1")
    small.page.check("#in-words")
    small.word("left", "grasshopper").hover()
    joined = made_by_hand.small().in_words().layers["decoder.0.cross"].weights[1, 1]
    assert small.lit() == pytest.approx({"Grashüpfer": joined[1], "schläft": joined[2]}, abs=1e-3)
    assert "in words" in small.page.locator("#numbers .hint").text_content()


def test_touching_a_word_works_as_hovering(opened: Open) -> None:
    touched = opened(page(made_by_hand.small(), head=0), has_touch=True, viewport={"width": 390, "height": 844})
    touched.word("left", "sleeps").tap()
    assert touched.lit() == {"schläft": 1.0}


def test_words_by_keyboard(small: Opened) -> None:
    small.page.select_option("#head", "0")
    small.word("left", "the").focus()
    assert small.told("words") == "“the” looks at “Der” 90%, “Gras” 10%"
    small.page.keyboard.press("ArrowRight")
    assert small.told("words").startswith("“grass” looks at")
    small.page.keyboard.press("ArrowUp")
    assert small.told("words").startswith("“Gras” is looked at by")
    small.page.keyboard.press("End")
    assert small.told("words").startswith("“</s>” is looked at by “</s>” 75%")
    assert small.page.locator(".word[tabindex='0']").count() == 2  # one stop a text, however long it is
    small.page.keyboard.press("Escape")
    assert small.told("words") == ""


def test_heat_map_by_pointer_and_by_keyboard(small: Opened) -> None:
    small.page.select_option("#head", "0")
    canvas = small.page.locator("#heat-canvas")
    canvas.focus()
    small.page.keyboard.press("ArrowRight")
    assert small.told("heat") == "“the” looks at “Der”: 0.900"
    small.page.keyboard.press("ArrowRight")
    small.page.keyboard.press("ArrowDown")
    assert small.told("heat") == "“grass” looks at “Gras”: 0.800"
    edge, cell = small.page.evaluate("[heat.edge, heat.drawn]")
    canvas.hover(position={"x": edge["left"] + 3.5 * cell, "y": edge["top"] + 4.5 * cell})
    assert small.told("heat") == "“</s>” looks at “schläft”: 0.250"


def test_heads_are_switched_one_by_one_and_all_at_once(small: Opened) -> None:
    assert pressed(small) == ["0", "1"]
    canvas = small.page.locator("#lines-canvas")
    both = small.ink("#lines-canvas")
    small.page.click("#heads .head >> nth=1")
    assert pressed(small) == ["0"]
    assert small.ink("#lines-canvas") < both
    canvas.focus()
    small.page.keyboard.press("ArrowDown")
    assert small.told("lines") == "“the” looks at “Der” 90% (head 0), “Gras” 10% (head 0)"
    small.page.click("text=none")
    assert pressed(small) == []
    assert small.told("lines") == "“the” looks at nothing in particular"
    small.page.locator("#heads .head >> nth=1").focus()
    small.page.keyboard.press("Space")
    assert pressed(small) == ["1"]
    assert small.told("lines") == "“the” looks at “</s>” 90% (head 1), “schläft” 10% (head 1)"
    small.page.click("#heads >> text=all")
    assert pressed(small) == ["0", "1"]


def test_hovering_a_token_shows_only_its_lines(small: Opened) -> None:
    whole = small.ink("#lines-canvas")
    box = small.page.locator("#lines-canvas").bounding_box()
    small.page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 26 + 3.5 * 25)
    assert small.told("lines").startswith("“schläft” is looked at by “sleeps” 100% (head 0)")
    assert small.ink("#lines-canvas") < whole


def test_the_grid_opens_a_head(small: Opened) -> None:
    assert small.page.locator(".thumb").count() == 2 * 2 + 1  # and the rollout
    small.page.click(".thumb[aria-label='encoder.0.self, head 1']")
    assert small.page.locator("#heat-what").text_content() == "encoder.0.self, head 1"
    assert small.page.evaluate("document.activeElement.id") == "heat-canvas"
    assert pressed(small) == ["1"]
    small.page.click(".thumb[aria-label^='encoder.rollout']")
    small.page.keyboard.press("ArrowRight")
    small.page.keyboard.press("ArrowRight")
    # half of what stays, half of the mean of both heads
    assert small.told("heat") == "“Der” looks at “Gras”: 0.025"


def test_numbers_are_pythons(small: Opened) -> None:
    rows = [row.inner_text().split() for row in small.page.locator("#numbers tbody tr").all()]
    assert [row[:2] for row in rows] == [
        [name, head] for name in ("encoder.0.self", "decoder.0.cross") for head in "01"
    ]
    weights = made_by_hand.small().layers["encoder.0.self"].weights
    expected = zip(entropy(weights), distance(weights), strict=True)
    assert [row[2:] for row in rows[:2]] == [[f"{bits:.2f}", f"{far:.2f}"] for bits, far in expected]


def test_it_opens_where_it_was_asked_to(opened: Open) -> None:
    shown = opened(page(made_by_hand.small(), "encoder.0.self", 1, words=True))
    assert shown.page.locator("#heat-what").text_content() == "encoder.0.self, head 1"
    assert shown.page.is_checked("#in-words")


HOSTILE = [
    "<script>alert(1)</script>", "</script><script>alert(2)</script>", "<img src=x onerror=alert(3)>", "{{script}}",
    "\\u003c!--", "<!--<script>", "🙂👩‍👩‍👧", "שלום", "مرحبا", "‮turned", '"quoted"&amp;',
]  # fmt: skip


def test_any_text_is_shown_as_text(opened: Open) -> None:
    text = " ".join(HOSTILE).replace("<img src=x", "<img/src=x")
    shown = opened(page(made_by_hand.of_words(text, text)))
    assert [
        each.text_content() for each in shown.page.locator("[aria-labelledby=text-left] .word").all()
    ] == text.split()
    shown.page.locator("[aria-labelledby=text-left] .word").first.hover()
    assert shown.told("words").startswith(
        "“<script>alert(1)</script>” looks at “<script>alert(1)</script>” 100%"
    )
    assert shown.page.locator("img").count() == 0
    assert shown.page.locator("script").count() == 2  # the data and the page's own


def test_right_to_left_text_runs_from_right_to_left(opened: Open) -> None:
    shown = opened(page(made_by_hand.of_words("שלום עולם טוב", "hello good world")))
    first, second = (
        shown.page.locator("[aria-labelledby=text-right] .word").nth(n).bounding_box() for n in (0, 1)
    )
    assert first["x"] > second["x"]
    shown.page.locator("[aria-labelledby=text-right] .word").first.focus()
    shown.page.keyboard.press("ArrowLeft")  # onwards, as it is read
    assert shown.told("words").startswith("“עולם”")


def test_five_hundred_tokens_stay_usable(opened: Open) -> None:
    shown = opened(page(made_by_hand.random(tokens=500, layers=4, heads=4)))
    assert shown.worked() < 2
    assert shown.page.evaluate("document.querySelectorAll('*').length") < 3000
    for name in ("heat", "lines"):
        size = shown.page.eval_on_selector(f"#{name}-canvas", "c => c.width * c.height")
        assert size < 2e6
    shown.page.locator("#heat-canvas").focus()
    shown.page.keyboard.press("End")
    shown.page.keyboard.press("End")
    shown.page.keyboard.press("PageDown")
    assert shown.told("heat").startswith("“w499” looks at “r499”")
    assert shown.page.eval_on_selector("#heat-scroller", "s => s.scrollLeft > 5000 && s.scrollTop > 5000")
    shown.page.locator("#lines-canvas").focus()
    shown.page.keyboard.press("End")
    assert shown.told("lines").startswith("“w499” looks at")
    before = shown.worked()
    shown.page.evaluate("choose({ layer: 1 })")
    assert shown.worked() - before < 1.5
    assert shown.fits()


def luminance(shown: Opened) -> float:
    return (
        sum(map(int, shown.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)"))) / 3
    )


def test_light_and_dark_by_preference_and_by_switch(opened: Open) -> None:
    light, dark = (opened(page(made_by_hand.small()), color_scheme=scheme) for scheme in ("light", "dark"))
    assert luminance(light) > 200
    assert luminance(dark) < 60
    light.page.click("#theme")
    assert luminance(light) < 60
    corner = (
        "c => Array.from(c.getContext('2d').getImageData(0, 0, 1, 1).data.slice(0, 3)).reduce((a, b) => a + b)"
    )
    assert light.page.eval_on_selector("#ramp", corner) < 200  # what is drawn follows
    light.page.click("#theme")
    assert luminance(light) > 200


@pytest.mark.parametrize("width", [390, 768])
def test_nothing_overflows(opened: Open, width: int) -> None:
    long = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen" * 2
    shown = opened(
        page(made_by_hand.of_words(f"{long} a b", f"x {long}")), viewport={"width": width, "height": 844}
    )
    assert shown.fits()
    many = opened(
        page(made_by_hand.random(tokens=9, layers=1, heads=8)), viewport={"width": width, "height": 844}
    )
    assert many.fits()
    inside = "s => s.scrollWidth <= s.clientWidth"
    assert many.page.eval_on_selector("#grid-scroller", inside)
    assert many.page.eval_on_selector("#numbers-scroller", inside)
    bars = many.page.eval_on_selector_all("td:nth-child(4) .bar", "bars => bars.map(b => b.clientWidth)")
    assert max(bars) > 1.2 * min(bars)  # a bar is as long as its number, on a narrow screen too


def test_paper_shows_all_of_it_in_light_colours(opened: Open) -> None:
    shown = opened(page(made_by_hand.random(tokens=40, layers=2, heads=3)), color_scheme="dark")
    shown.page.emulate_media(media="print")
    shown.wait_until("heat.view.canvas.clientHeight >= heat.view.size.height - 1")
    assert not shown.page.is_visible("#controls")
    assert shown.page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert shown.page.eval_on_selector("#lines-canvas", "c => c.clientHeight >= lines.view.size.height - 1")
    assert all(shown.page.eval_on_selector_all(".thumb canvas", "all => all.map(c => c.getContext('2d').getImageData(32, 32, 1, 1).data[3])"))  # fmt: skip


def test_every_control_has_a_name(small: Opened) -> None:
    nameless = small.page.evaluate(
        """Array.from(document.querySelectorAll('button, select, input, [tabindex]')).filter(e =>
            !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim() || e.labels?.length)
        ).map(e => e.outerHTML)"""
    )
    assert nameless == []


def test_a_notebook_frame_works(opened: Open) -> None:
    shown = opened(f"<!doctype html><meta charset=utf-8><body>{made_by_hand.small()._repr_html_()}")
    frame = shown.page.frame_locator("iframe")
    frame.locator("[aria-labelledby=text-left] .word").nth(3).hover()
    assert frame.locator("#words-told").text_content() == "“sleeps” looks at “Gras” 50%, “schläft” 50%"
