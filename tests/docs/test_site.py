"""The site builds without warnings, its links and anchors exist, and it makes no network requests."""

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
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    # Not --quiet: that hides warnings from --strict too.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Page(HTMLParser):
    """Anchors, links, loaded resources and tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.names |= {values[key] for key in ("id", "name") if key in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") not in ("prev", "next", "canonical"):
            self.loads.append(values["href"])
        if "src" in values:
            self.loads.append(values["src"])


def html_pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_every_link_and_anchor_leads_somewhere(site: Path) -> None:
    site_pages = html_pages(site)
    assert len(site_pages) > 20
    dead = []
    for path, page in site_pages.items():
        if path.name == "404.html":
            continue  # its links begin at the root of a server
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (
                parts.fragment
                and target in site_pages
                and unquote(parts.fragment) not in site_pages[target].names
            ):
                dead.append(f"{path.name}: {link}")
    assert dead == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    external = [
        f"{path.name}: {address}"
        for path, page in html_pages(site).items()
        for address in page.loads
        if "//" in address
    ]
    assert external == []


def test_no_formula_is_left_as_it_was_typed(site: Path) -> None:
    texts = {path.name: path.read_text("utf-8") for path in (site / "guide").glob("*.html")}
    assert Page(texts["02-scores-and-masks.html"]).tags.count("math") > 10
    assert [name for name, text in texts.items() if "arithmatex" in text] == []


def test_code_comes_from_the_source_and_the_reference_is_generated(site: Path) -> None:
    texts = {
        name: (site / name).read_text("utf-8")
        for name in ("guide/01-kernel-regression.html", "reference/commands.html")
    }
    assert "Attention written out: mask, softmax, weighted sum." in texts["guide/01-kernel-regression.html"]
    assert "--token-file" in texts["reference/commands.html"]
    assert "batch_tokens" in (site / "reference" / "recipes.html").read_text("utf-8")
    assert "causal_mask" in (site / "reference" / "nn.html").read_text("utf-8")


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_the_files_themselves(page: Path) -> None:
    """Relative links as they are followed in the repository."""
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
    """Only files of the site are requested, no script fails, and no page is wider than the screen."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    page = context.new_page()
    requests, errors = [], []
    page.on("request", lambda request: requests.append(request.url))
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
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert errors == []
    context.close()
