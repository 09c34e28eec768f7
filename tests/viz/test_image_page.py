"""Attention over an image: the page in a real browser, and the pictures."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.chromium import Opened

from regard.errors import RegardError
from regard.viz.figure import save_as
from regard.viz.images import ImageAttention, draw_groups, draw_seen, image_page, joined
from regard.viz.payload import AttentionMaps, Layer, Side

Open = Callable[..., Opened]


def seen(before: int = 1, groups: bool = True) -> ImageAttention:
    """Two rows of three patches; in head 0 every token looks at the patch after it, in head 1 at all of them."""
    names = [*["[CLASS]"] * before, *(f"{row},{column}" for row in range(2) for column in range(3))]
    side = Side.of_words("patches", "a.png", names)
    count = len(names)
    ahead = np.roll(np.eye(count), 1, axis=1)
    weights = np.stack([ahead, np.full((count, count), 1 / count)]).astype(np.float32)
    layers = {f"encoder.{number}.self": Layer(side, side, weights) for number in range(2)}
    pixels = np.arange(8 * 12 * 3, dtype=np.uint8).reshape(8, 12, 3)
    merged = [np.array([0, 1, 2, 3, 4, 4]), np.array([0, 0, 1, 0, 2, 2])]
    return ImageAttention(
        "a.png: seven, 93%", pixels, 2, 3, before, AttentionMaps(side, side, layers), merged if groups else ()
    )


def test_the_class_token_is_shown_first_and_a_patch_when_it_is_pointed_at(opened: Open) -> None:
    page = opened(image_page(seen(), "encoder.0.self", 0))
    assert page.page.locator("#image-title").text_content() == "a.png: seven, 93%"
    assert page.told("image").startswith("the class token looked most at row 1, column 1 (100%)")
    box = page.page.locator("#image-canvas").bounding_box()
    page.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.25)
    assert page.told("image").startswith("row 1, column 2 looked most at row 1, column 3 (100%)")
    page.page.mouse.move(2, 2)
    assert page.told("image").startswith("the class token")
    page.page.locator("#image-canvas").focus()
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("ArrowDown")
    assert page.told("image").startswith("row 2, column 1 looked most at row 2, column 2 (100%)")
    page.page.click("#whole")
    assert page.told("image").startswith("the class token")
    assert page.complaints == []


def test_heads_and_rollout_are_chosen(opened: Open) -> None:
    page = opened(image_page(seen()))
    assert page.page.locator("#layer option:checked").text_content() == "encoder.rollout"
    assert page.page.locator(".thumb").count() == 2 * 2 + 1
    page.page.locator(".thumb").nth(3).click()
    assert page.page.locator("#image-what").text_content() == "encoder.1.self, head 1"
    assert page.page.locator("#merged figcaption").all_text_contents() == [
        "after layer 0: 5 of 6 patches",
        "after layer 1: 3 of 6 patches",
    ]
    assert page.ink("#image-canvas") > 1000
    assert page.complaints == []


def test_without_a_class_token_or_merging(opened: Open) -> None:
    page = opened(image_page(seen(before=0, groups=False), "encoder.0.self", 1))
    assert page.told("image").startswith("the mean of all patches looked most at")
    assert not page.page.locator("#merged").is_visible()
    assert page.complaints == []


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_is_cut_off(opened: Open, width: int) -> None:
    page = opened(image_page(seen()), viewport={"width": width, "height": 800}, color_scheme="dark")
    assert page.fits()
    page.page.click("#theme")
    assert page.page.locator("#theme").text_content() == "Dark"
    assert page.complaints == []


def test_what_stands_in_a_name_is_text(opened: Open) -> None:
    told = seen()
    evil = ImageAttention("<img src=x onerror=alert(1)></script>", told.pixels, 2, 3, 1, told.maps)
    page = opened(image_page(evil))
    assert page.page.locator("#image-title").text_content() == "<img src=x onerror=alert(1)></script>"
    assert page.complaints == []


def test_pictures(tmp_path: Path) -> None:
    for figure, panels in ((draw_seen(seen()), 4), (draw_groups(seen()), 3), (draw_seen(seen(), head=1), 3)):
        assert sum(bool(axes.images) for axes in figure.axes) == panels
        assert save_as(figure, tmp_path / "picture.svg").stat().st_size > 1000
    with pytest.raises(RegardError, match="there is no head 2"):
        draw_seen(seen(), "encoder.0.self", 2)


def test_patches_that_are_one_have_their_mean_colour() -> None:
    image = seen()
    found = joined(image, image.groups[1])
    first = image.pixels[:4, :8].reshape(-1, 3).astype(float)
    both = np.concatenate([first, image.pixels[4:, :4].reshape(-1, 3)]).mean(0)
    assert np.allclose(found[0, 0], both, atol=1)
    assert np.array_equal(found[:4, 8:], image.pixels[:4, 8:])  # a patch by itself keeps its pixels


def test_what_the_class_token_looked_at() -> None:
    image = seen()
    assert image.over(image.maps.layers["encoder.0.self"], 0).tolist() == [[1, 0, 0], [0, 0, 0]]
    assert image.over(image.maps.layers["encoder.0.self"], 1) == pytest.approx(np.full((2, 3), 1 / 7))
