"""The site: built without a warning, every link and anchor there, and nothing asked of the network."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from blocks import pages
from support.page_run import ROOT

pytest.importorskip("mkdocs", reason="mkdocs is not installed")
pytest.importorskip("material", reason="mkdocs-material is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    # Not --quiet: that hides warnings from --strict too.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Page(HTMLParser):
    """What a page names, what it links to, and what it loads by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.names |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in ("prev", "next", "canonical"):
            self.loads.append(given["href"])
        if "src" in given:
            self.loads.append(given["src"])


def opened(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_every_link_and_anchor_leads_somewhere(site: Path) -> None:
    found = opened(site)
    assert len(found) > 20
    dead = []
    for path, page in found.items():
        if path.name == "404.html":
            continue  # its links begin at the root of a server
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists() or (
                parts.fragment and there in found and unquote(parts.fragment) not in found[there].names
            ):
                dead.append(f"{path.name}: {link}")
    assert dead == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    away = [
        f"{path.name}: {each}" for path, page in opened(site).items() for each in page.loads if "//" in each
    ]
    assert away == []


def test_no_formula_is_left_as_it_was_typed(site: Path) -> None:
    texts = {path.name: path.read_text("utf-8") for path in (site / "guide").glob("*.html")}
    assert Page(texts["02-scores-and-masks.html"]).tags.count("math") > 10
    assert [name for name, text in texts.items() if "arithmatex" in text] == []


def test_bricks_are_shown_from_the_source_and_the_reference_is_there(site: Path) -> None:
    read = {
        name: (site / name).read_text("utf-8")
        for name in ("guide/01-kernel-regression.html", "reference/commands.html")
    }
    assert "Attention written out: mask, softmax, weighted sum." in read["guide/01-kernel-regression.html"]
    assert "--token-file" in read["reference/commands.html"]
    assert "batch_tokens" in (site / "reference" / "recipes.html").read_text("utf-8")
    assert "causal_mask" in (site / "reference" / "nn.html").read_text("utf-8")


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_the_files_themselves(page: Path) -> None:
    """As a reader follows them in the repository, where there is no site."""
    text = re.sub(r"`[^`\n]*`", "", page.read_text("utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        parts = urlsplit(link)
        if not parts.scheme and parts.path:
            assert (page.parent / parts.path).exists(), link


def test_pictures_are_small_and_shown() -> None:
    shown = "".join(page.read_text("utf-8") for page in pages(ROOT))
    for picture in (ROOT / "docs" / "pictures").iterdir():
        assert picture.stat().st_size < 300_000, picture.name
        assert f"pictures/{picture.name})" in shown, picture.name


@pytest.mark.parametrize(
    ("name", "width", "scheme"), [("light", 1280, "light"), ("dark", 1280, "dark"), ("phone", 390, "light")]
)
def test_in_a_browser_without_a_network(site: Path, browser, name: str, width: int, scheme: str) -> None:
    """Nothing is asked for but files of the site, nothing is told as an error, and no page is wider than the screen."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    page = context.new_page()
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    for chapter in (
        "index.html",
        "guide/02-scores-and-masks.html",
        "guide/04-transformer.html",
        "reference/recipes.html",
    ):
        page.goto((site / chapter).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), chapter
        for formula in page.query_selector_all("math"):
            assert (formula.bounding_box() or {"height": 0})["height"] > 4
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert errors == []
    context.close()
