"""The HTML report in a real browser: all text is escaped, nothing overflows, charts show their values."""

from collections.abc import Callable

import numpy as np
import pytest
from support.chromium import OpenedPage

from regard.viz.html_chart import Series, heat_map, line_chart, nice_ticks, tick_text
from regard.viz.html_report import HtmlReport

HOSTILE = "<img src=x onerror=alert(2)>"


def example_chart() -> str:
    training = Series("training", [1.0, 2.0, 3.0], [3.0, 2.0, 1.0])
    validation = Series("<b>validation", [1.5, 3.0], [2.5, 1.5], number=1, markers=True)
    return line_chart("Loss <b>", "minutes", [training, validation], form=".2f")


def example_report() -> HtmlReport:
    page = HtmlReport("Report of </title><script>alert(0)</script>")
    page.paragraph("<script>alert(1)</script> 🙂 שלום")
    page.section("Samples", "<b>")
    page.facts([("BLEU", HOSTILE, "<b>" + "x" * 200)])
    page.table(("step", "text"), [("1,060", HOSTILE), ("2", "word" * 60)])
    page.table((), [("Python", "3")], caption=HOSTILE)
    page.charts([example_chart(), example_chart()])
    words = ["a", HOSTILE, "\x00"]
    page.heat_map(heat_map(np.eye(3), words, words, 'Heat "map"', 3))
    page.code("a = 1\n</pre><script>alert(3)</script>" + "x" * 300)
    page.code(HOSTILE, summary=HOSTILE)
    return page


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_escapes_text(opened: Callable[..., OpenedPage], width: int, scheme: str) -> None:
    shown = opened(example_report().html(), viewport={"width": width, "height": 844}, color_scheme=scheme)
    assert shown.page.title() == "Report of </title><script>alert(0)</script>"
    assert shown.page.locator("p").first.text_content() == "<script>alert(1)</script> 🙂 שלום"
    assert HOSTILE in shown.page.locator("td").all_text_contents()
    assert shown.page.locator("img").count() == 0
    assert shown.page.get_by_label('Heat "map"').is_visible()
    assert shown.fits()


@pytest.mark.parametrize("width", [390, 1200])
def test_charts_are_not_cut_and_their_text_is_legible(opened: Callable[..., OpenedPage], width: int) -> None:
    shown = opened(example_report().html(), viewport={"width": width, "height": 844})
    box = shown.page.locator(".chart > svg").first.bounding_box()
    for text in shown.page.locator(".chart > svg").first.locator("text").all():
        inner = text.bounding_box()
        assert box["x"] - 1 <= inner["x"]
        assert inner["x"] + inner["width"] <= box["x"] + box["width"] + 1
        assert inner["height"] >= 11  # pixels


def test_colours_follow_the_theme(opened: Callable[..., OpenedPage]) -> None:
    colours = {
        scheme: opened(example_report().html(), color_scheme=scheme).page.eval_on_selector_all(
            ".chart .curve, .chart text, .heat rect",
            "marks => marks.map(mark => getComputedStyle(mark).stroke + getComputedStyle(mark).fill)",
        )
        for scheme in ("light", "dark")
    }
    assert not set(colours["light"]) & set(colours["dark"])


def test_values_at_the_pointer_and_with_the_keyboard(opened: Callable[..., OpenedPage]) -> None:
    shown = opened(example_report().html())
    chart, legend = shown.page.locator(".chart").first.locator("> svg"), shown.page.locator(".legend").first
    box = chart.bounding_box()
    chart.hover(position={"x": box["width"] - 15, "y": 30})
    assert legend.inner_text().split() == ["training", "1.00", "<b>validation", "1.50", "at", "3", "minutes"]
    shown.page.mouse.move(5, 5)
    assert legend.inner_text().split() == ["training", "<b>validation"]
    chart.focus()
    shown.page.keyboard.press("ArrowRight")
    assert legend.inner_text().split()[-3:] == ["at", "1", "minutes"]
    shown.page.keyboard.press("ArrowRight")
    assert legend.inner_text().split() == ["training", "3.00", "<b>validation", "2.50", "at", "1.5", "minutes"]
    shown.page.keyboard.press("Escape")
    assert legend.inner_text().split() == ["training", "<b>validation"]


def test_hollow_points_are_not_connected() -> None:
    line = Series("BLEU", [0, 1, 2, 3], [10, 20, 30, 40], markers=True, hollow=[False, False, True, False])
    chart = line_chart("BLEU", "words", [line], names=["a", "b", "c", "d\n(1)"])
    path = chart.partition('class="curve" d="')[2].partition('"')[0]
    assert (path.count("M"), path.count("L")) == (2, 1)
    assert chart.count('class="hollow"') == 1


def test_ticks_are_round_numbers() -> None:
    assert nice_ticks(60.3, 98.2) == [60, 70, 80, 90, 100]
    assert nice_ticks(0, 2.8, inside=True) == [0, 1, 2]
    assert nice_ticks(5, 5) == pytest.approx([4, 4.5, 5, 5.5, 6])
    ticks = nice_ticks(0, 0.004)
    assert [tick_text(tick, ticks) for tick in ticks] == ["0.000", "0.001", "0.002", "0.003", "0.004"]
