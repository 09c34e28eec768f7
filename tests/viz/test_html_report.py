"""The HTML report in a real browser: all text is escaped, nothing overflows, no errors."""

from collections.abc import Callable

import pytest
from support import attention_examples
from support.chromium import OpenedPage

from regard.viz.heatmaps import draw_matrix
from regard.viz.html_report import HtmlReport


def example_report() -> HtmlReport:
    page = HtmlReport("Report of </title><script>alert(0)</script>")
    page.paragraph("<script>alert(1)</script> 🙂 שלום")
    page.section("Samples", "<b>")
    page.table(("step", "text"), [("1,060", "<img src=x onerror=alert(2)>"), ("2", "word" * 60)])
    page.table((), [("Python", "3")])
    layer = attention_examples.small().layers["decoder.0.cross"]
    page.picture(draw_matrix(layer.weights[0], layer, "head"), 'Heat "map"')
    page.code("a = 1\n</pre><script>alert(3)</script>" + "x" * 300)
    return page


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_escapes_text(opened: Callable[..., OpenedPage], width: int, scheme: str) -> None:
    shown = opened(example_report().html(), viewport={"width": width, "height": 844}, color_scheme=scheme)
    assert shown.page.title() == "Report of </title><script>alert(0)</script>"
    assert shown.page.locator("p").first.text_content() == "<script>alert(1)</script> 🙂 שלום"
    assert "<img src=x onerror=alert(2)>" in shown.page.locator("td").all_text_contents()
    assert shown.page.locator("script").count() == 0
    assert shown.page.eval_on_selector("img", "image => image.naturalWidth") > 100  # the picture is drawn
    assert shown.page.get_by_alt_text('Heat "map"').is_visible()
    assert shown.fits()
