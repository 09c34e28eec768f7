"""The site builds without warnings, its links and anchors exist, and it makes no network requests."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from blocks import FENCE, pages
from sources import wrap_docstrings
from support.page_run import ROOT

pytest.importorskip("mkdocs", reason="mkdocs is not installed")
pytest.importorskip("material", reason="mkdocs-material is not installed")
pytest.importorskip("latex2mathml", reason="latex2mathml is not installed")

from site_pages import render_fence


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
    assert [name for name, text in texts.items() if re.search(r"<mo>\w{2,}</mo>", text)] == []


def test_code_comes_from_the_source_and_the_reference_is_generated(site: Path) -> None:
    texts = {
        name: (site / name).read_text("utf-8")
        for name in ("guide/01-kernel-regression.html", "reference/commands.html")
    }
    assert "Attention in plain PyTorch operations: mask, softmax" in texts["guide/01-kernel-regression.html"]
    assert "--token-file" in texts["reference/commands.html"]
    assert "batch_tokens" in (site / "reference" / "recipes.html").read_text("utf-8")
    assert "causal_mask" in (site / "reference" / "nn.html").read_text("utf-8")


def test_commands_and_their_output_are_separate_blocks() -> None:
    fence = FENCE.search("```console\n$ cd runs\n$ echo a \\\n    b\na b\n$ pwd\n```\n")
    assert fence is not None
    assert render_fence(fence) == (
        "``` { .bash .commands }\ncd runs\necho a \\\n    b\n```\n\n"
        "``` { .text .output .no-copy }\na b\n```\n\n"
        "``` { .bash .commands }\npwd\n```"
    )


def test_docstrings_and_comments_of_a_listing_are_wrapped() -> None:
    code = '''def f(a):
    """Join the lines of a paragraph
    before it is filled.

    Args:
        a: An entry of several
            lines.
    """
    # a comment
    return "a string that is longer than the width"'''
    assert wrap_docstrings(code, 200) == code
    assert (
        wrap_docstrings(code, 32)
        == '''def f(a):
    """Join the lines of a
    paragraph before it is
    filled.

    Args:
        a: An entry of several
            lines.
    """
    # a comment
    return "a string that is longer than the width"'''
    )


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
        ending = " -->" if picture.suffix == ".json" else ")"  # weights, which the site draws
        assert f"pictures/{picture.name}{ending}" in shown, picture.name


@pytest.fixture
def opened(browser):
    """Pages opened from disk without a network; at the end nothing has been requested, and no script has failed."""
    requests: list[str] = []
    errors: list[str] = []
    contexts = []

    def open_page(path: Path, **settings):
        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "offline": True, **settings}
        )
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    assert errors == []


WIDE = """() => {
  const scrolls = e => e && (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  return [...document.querySelectorAll("article *")]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e)).map(e => e.outerHTML.slice(0, 120));
}"""
"""Elements that reach beyond the window, except inside of what scrolls by itself."""


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")], ids=["light", "dark", "phone"]
)
def test_in_a_browser_without_a_network(site: Path, opened, width: int, scheme: str) -> None:
    """No page is wider than the screen; formulas are drawn in the font that the site ships."""
    page = opened(site / "index.html", viewport={"width": width, "height": 900}, color_scheme=scheme)
    for name in sorted(str(path.relative_to(site)) for path in site.rglob("*.html")):
        if name == "404.html" or name.startswith("pictures/"):
            continue
        page.goto((site / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
        assert page.evaluate(WIDE) == [], name
        for formula in page.query_selector_all("math"):
            assert (formula.bounding_box() or {"height": 0})["height"] > 4
        if page.query_selector("math"):
            page.evaluate("document.fonts.ready")
            assert page.evaluate("document.fonts.check('16px \"STIX Two Math\"')")
            loaded = page.evaluate("[...document.fonts].map(font => [font.family, font.status])")
            assert ["STIX Two Math", "loaded"] in [[family.strip('"'), status] for family, status in loaded]


def test_the_search_finds_pages_from_disk(site: Path, opened) -> None:
    page = opened(site / "guide" / "04-transformer.html")
    page.click(".md-search__input")
    page.keyboard.type("checkpoint")
    hit = page.locator(".md-search-result__link", has_text="The run folder")
    hit.first.click()
    page.wait_for_url("**/reference/run-folder.html*")
    page.locator("article mark", has_text="checkpoint").first.wait_for()


def test_a_copy_button_copies_the_commands_only(site: Path, opened) -> None:
    page = opened(site / "guide" / "04-transformer.html")
    page.evaluate(
        "() => document.addEventListener('copy', () => { window.copied = document.activeElement.value"
        " || getSelection().toString(); })"
    )
    page.locator(".commands", has_text="regard show positions").locator("button").first.click()
    page.wait_for_function("window.copied")
    assert page.evaluate("window.copied") == "regard show positions"
    assert page.locator(".output").count() > 3
    assert page.locator(".output button").count() == 0


@pytest.mark.parametrize("name", ["index.html", "guide/05-translation.html", "how-to/read-the-attention.html"])
def test_the_attention_viewer_works_inside_a_page(site: Path, opened, name: str) -> None:
    page = opened(site / name)
    page.locator("iframe.live").scroll_into_view_if_needed()
    words = page.frame_locator("iframe.live").locator(".word")
    words.filter(has_text="newspaper").first.hover()
    words.filter(has_text="Zeitung").and_(page.frame_locator("iframe.live").locator(".lit")).first.wait_for()
    page.get_by_text("Open the page in the whole window").click()
    page.wait_for_url("**/pictures/park.html")
