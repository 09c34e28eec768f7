"""Attention over an image: the page in a real browser, and the figures."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.chromium import OpenedPage

from regard.errors import RegardError
from regard.viz.attention_maps import AttentionMaps, Layer, TokenSequence
from regard.viz.figure import save_as
from regard.viz.image_attention import (
    ImageAttention,
    average_merged_patches,
    draw_image_attention,
    draw_merged_patches,
    image_attention_page,
)

Open = Callable[..., OpenedPage]


def example_image(prefix_tokens: int = 1, groups: bool = True) -> ImageAttention:
    """Two rows of three patches; in head 0 every token attends to the next patch, in head 1 to all."""
    names = [*["[CLASS]"] * prefix_tokens, *(f"{row},{column}" for row in range(2) for column in range(3))]
    side = TokenSequence.of_words("patches", "a.png", names)
    count = len(names)
    ahead = np.roll(np.eye(count), 1, axis=1)
    weights = np.stack([ahead, np.full((count, count), 1 / count)]).astype(np.float32)
    layers = {f"encoder.{number}.self": Layer(side, side, weights) for number in range(2)}
    pixels = np.arange(8 * 12 * 3, dtype=np.uint8).reshape(8, 12, 3)
    merged = [np.array([0, 1, 2, 3, 4, 4]), np.array([0, 0, 1, 0, 2, 2])]
    return ImageAttention(
        "a.png: seven, 93%",
        pixels,
        2,
        3,
        prefix_tokens,
        AttentionMaps(side, side, layers),
        merged if groups else (),
    )


def test_class_token_is_the_first_query_then_the_patch_under_the_pointer(opened: Open) -> None:
    page = opened(image_attention_page(example_image(), "encoder.0.self", 0))
    assert page.page.locator("#image-title").text_content() == "a.png: seven, 93%"
    assert page.status("image").startswith("the class token attends most to row 1, column 1 (100%)")
    box = page.page.locator("#image-canvas").bounding_box()
    page.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.25)
    assert page.status("image").startswith("row 1, column 2 attends most to row 1, column 3 (100%)")
    page.page.mouse.move(2, 2)
    assert page.status("image").startswith("the class token")
    page.page.locator("#image-canvas").focus()
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("ArrowDown")
    assert page.status("image").startswith("row 2, column 1 attends most to row 2, column 2 (100%)")
    page.page.click("#reset-query")
    assert page.status("image").startswith("the class token")
    assert page.errors == []


def test_heads_and_rollout_can_be_selected(opened: Open) -> None:
    page = opened(image_attention_page(example_image()))
    assert page.page.locator("#layer option:checked").text_content() == "Encoder · rollout over all layers"
    assert page.page.locator(".thumb").count() == 2 * 2 + 1
    page.page.locator(".thumb").nth(3).click()
    assert page.page.locator("#image-what").text_content() == "Encoder layer 2 · self-attention, head 1"
    assert page.page.locator("#merged figcaption").all_text_contents() == [
        "after layer 0: 5 of 6 patches",
        "after layer 1: 3 of 6 patches",
    ]
    assert page.drawn_pixels("#image-canvas") > 1000
    assert page.errors == []


def test_without_a_class_token_or_merging(opened: Open) -> None:
    page = opened(image_attention_page(example_image(prefix_tokens=0, groups=False), "encoder.0.self", 1))
    assert page.status("image").startswith("the mean of all patches attends most to")
    assert not page.page.locator("#merged").is_visible()
    assert page.errors == []


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_overflows(opened: Open, width: int) -> None:
    page = opened(
        image_attention_page(example_image()), viewport={"width": width, "height": 800}, color_scheme="dark"
    )
    assert page.fits()
    page.page.click("#theme")
    assert page.page.locator("#theme").text_content() == "Dark"
    assert page.errors == []


def test_names_are_escaped(opened: Open) -> None:
    image = example_image()
    hostile = ImageAttention("<img src=x onerror=alert(1)></script>", image.pixels, 2, 3, 1, image.maps)
    page = opened(image_attention_page(hostile))
    assert page.page.locator("#image-title").text_content() == "<img src=x onerror=alert(1)></script>"
    assert page.errors == []


def test_figures(tmp_path: Path) -> None:
    for figure, panels in (
        (draw_image_attention(example_image()), 4),
        (draw_merged_patches(example_image()), 3),
        (draw_image_attention(example_image(), head=1), 3),
    ):
        assert sum(bool(axes.images) for axes in figure.axes) == panels
        assert save_as(figure, tmp_path / "picture.svg").stat().st_size > 1000
    with pytest.raises(RegardError, match="there is no head 2"):
        draw_image_attention(example_image(), "encoder.0.self", 2)


def test_merged_patches_have_their_mean_colour() -> None:
    image = example_image()
    averaged = average_merged_patches(image, image.groups[1])
    first = image.pixels[:4, :8].reshape(-1, 3).astype(float)
    both = np.concatenate([first, image.pixels[4:, :4].reshape(-1, 3)]).mean(0)
    assert np.allclose(averaged[0, 0], both, atol=1)
    assert np.array_equal(
        averaged[:4, 8:], image.pixels[:4, 8:]
    )  # a patch that was not merged keeps its pixels


def test_patch_weights_of_the_class_token() -> None:
    image = example_image()
    assert image.patch_weights(image.maps.layers["encoder.0.self"], 0).tolist() == [[1, 0, 0], [0, 0, 0]]
    assert image.patch_weights(image.maps.layers["encoder.0.self"], 1) == pytest.approx(np.full((2, 3), 1 / 7))
