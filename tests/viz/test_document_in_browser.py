"""A page of sections in a real browser: text is text, nothing overflows, no complaint."""

from collections.abc import Callable

import pytest
from support import made_by_hand
from support.chromium import Opened

from regard.viz.document import Document
from regard.viz.heads import draw_matrix


def a_document() -> Document:
    page = Document("Report of </title><script>alert(0)</script>")
    page.paragraph("<script>alert(1)</script> 🙂 שלום")
    page.section("Samples", "<b>")
    page.table(("step", "text"), [("1,060", "<img src=x onerror=alert(2)>"), ("2", "word" * 60)])
    page.table((), [("Python", "3")])
    layer = made_by_hand.small().layers["decoder.0.cross"]
    page.picture(draw_matrix(layer.weights[0], layer, "head"), 'Heat "map"')
    page.code("a = 1\n</pre><script>alert(3)</script>" + "x" * 300)
    return page


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_document_shows_text_as_text(opened: Callable[..., Opened], width: int, scheme: str) -> None:
    shown = opened(a_document().html(), viewport={"width": width, "height": 844}, color_scheme=scheme)
    assert shown.page.title() == "Report of </title><script>alert(0)</script>"
    assert shown.page.locator("p").first.text_content() == "<script>alert(1)</script> 🙂 שלום"
    assert "<img src=x onerror=alert(2)>" in shown.page.locator("td").all_text_contents()
    assert shown.page.locator("script").count() == 0
    assert shown.page.eval_on_selector("img", "image => image.naturalWidth") > 100  # the picture is drawn
    assert shown.page.get_by_alt_text('Heat "map"').is_visible()
    assert shown.fits()
