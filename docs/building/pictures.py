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

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
SENTENCE = "Ein alter Mann liest im Park eine Zeitung."
OTHER = "Zwei junge Hunde spielen am Strand mit einem roten Ball."
HOVERED_WORD = 6
"""Index of the word of the translation under the mouse."""


def regard(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "regard", *map(str, arguments)], check=True, stdout=sys.stderr)


def alignment(run: Path, into: Path) -> None:
    regard("look", run, SENTENCE, "-o", into)


def head_view(run: Path, into: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, browser_page(1080, 940) as page:
        regard("look", run, SENTENCE, "-o", f"{folder}/page.html")
        page.goto(f"file://{folder}/page.html")
        top = page.locator("#words").bounding_box()
        controls = page.locator("#controls").bounding_box()
        assert top is not None
        assert controls is not None
        page.evaluate("y => window.scrollTo(0, y)", top["y"] - controls["height"] - 12)
        words = page.locator("#texts .text").last.locator(".word")
        words.nth(min(HOVERED_WORD, words.count() - 1)).hover()
        page.wait_for_timeout(500)  # colours fade in
        page.screenshot(path=into)


def server(run: Path, into: Path) -> None:
    command = [sys.executable, "-m", "regard", "serve", str(run), "--port", "0"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as serving,
        browser_page(1120, 840) as page,
    ):
        assert serving.stdout is not None
        try:
            page.goto(serving.stdout.readline().strip())
            page.select_option("#nbest", "3")
            page.fill("#typed", f"{SENTENCE}\n{OTHER}")
            words = page.locator("#translation .word")
            words.first.wait_for()
            page.wait_for_timeout(1000)  # until the second sentence is there too, with its alternatives
            words.nth(min(HOVERED_WORD, words.count() - 1)).hover()
            page.wait_for_timeout(500)
            page.screenshot(path=into, full_page=True)
        finally:
            serving.terminate()


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
    "alignment.png": alignment,
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
