"""Recreates the pictures of the guide: `python docs/building/pictures.py runs/demo [--only NAME ...]`.

RUN is the picture-book run of `make demo`. Pages are screenshots from Chromium, lessons are computed
(`cost` and `bottleneck` take minutes); `--only` selects pictures. Pictures of models from other data
(comparison, images, painting) are drawn by the commands next to them in the guide.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, sync_playwright

ROOT = Path(__file__).parents[2]
SENTENCE = "Ein alter Mann liest im Park eine Zeitung."
REORDERED = "Am Abend liest die Frau im Garten ein Buch."
"""A sentence whose words are in another order in English: for the screenshots."""
OTHER = "Im Winter kauft der König ein Pferd."
HOVERED_WORD = 7
"""Index of the word of the translation under the mouse: reading."""
MARGIN = 16
"""Pixels around the cards of a screenshot."""


def regard(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "regard", *map(str, arguments)], check=True, stdout=sys.stderr)


def look(run: Path, into: Path) -> None:
    regard("look", run, SENTENCE, "-o", into)


def head_view(run: Path, into: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, browser_page(1080, 1400) as page:
        regard("look", run, REORDERED, "--head", 0, "-o", f"{folder}/page.html")
        page.goto(f"file://{folder}/page.html")
        page.click("#reading-close")
        page.locator("#heads").get_by_text("all").click()
        page.evaluate("document.activeElement.blur()")
        hover(page.locator("#texts .text").last.locator(".word"))
        screenshot(page, ".top", "#heat", into)


def server(run: Path, into: Path) -> None:
    command = [sys.executable, "-m", "regard", "serve", str(run), "--port", "0"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as serving,
        browser_page(1120, 900) as page,
    ):
        assert serving.stdout is not None
        try:
            page.goto(serving.stdout.readline().strip())
            page.select_option("#nbest", "2")
            page.fill("#source-text", f"{REORDERED}\n{OTHER}")
            page.locator("#translation .alternatives").nth(1).wait_for()
            hover(page.locator("#translation .word"))
            screenshot(page, ".top", "#alignment-status", into)
        finally:
            serving.terminate()


def hover(words: Locator) -> None:
    words.nth(min(HOVERED_WORD, words.count() - 1)).hover()
    words.page.wait_for_timeout(500)  # colours fade in


def screenshot(page: Page, first: str, last: str, into: Path) -> None:
    """The part of a page from one element to another, with a margin."""
    top, bottom = page.locator(first).bounding_box(), page.locator(last).bounding_box()
    assert top is not None
    assert bottom is not None
    y = max(0, top["y"] - MARGIN)
    height = bottom["y"] + bottom["height"] + MARGIN - y
    width = page.evaluate("document.documentElement.clientWidth")
    page.screenshot(path=into, full_page=True, clip={"x": 0, "y": y, "width": width, "height": height})


def lesson(name: str) -> Callable[[Path, Path], None]:
    def draw(run: Path, into: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            regard("show", name, "--out", folder)
            shutil.copyfile(f"{folder}/{name}{into.suffix}", into)

    return draw


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def browser_page(width: int, height: int) -> Iterator[Page]:
    program = chromium()
    if program is None:
        sys.exit("Chromium is not installed; it is needed for screenshots")
    with (
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=program, args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        page.set_default_timeout(30_000)
        yield page


LESSONS = ("scaling", "positions", "smoothing", "schedule", "cost", "bottleneck")
PICTURES: dict[str, Callable[[Path, Path], None]] = {
    "alignment.png": look,
    "park.json": look,
    "head-view.png": head_view,
    "server.png": server,
    **{f"{name}.svg": lesson(name) for name in LESSONS},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a picture-book run")
    parser.add_argument("--only", nargs="+", choices=PICTURES, default=list(PICTURES))
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    options = parser.parse_args()
    for name in options.only:
        PICTURES[name](options.run, options.out / name)
        print(options.out / name)


if __name__ == "__main__":
    main()
