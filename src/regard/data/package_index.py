"""Finds a source archive on the package indexes that pip is configured for, without running pip.

``pip download`` would build the package, that is, run its code; only the file's URL and digest are needed.
"""

import configparser
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from regard.data.http_client import HttpError, Response, http_error, open_url, redacted

PUBLIC_INDEX = "https://pypi.org/simple"

_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_LARGEST_PAGE = 32 << 20


@dataclass(frozen=True)
class Link:
    """A file on the index: its URL, and its SHA-256 if the page has it."""

    url: str
    sha256: str | None


def find_files(project: str, filename: str, *, timeout: float = 30.0) -> tuple[list[Link], list[str]]:
    """The links to ``filename`` on all indexes, and for the other indexes the reason."""
    links, failures = [], []
    for index in indexes():
        page = f"{index.rstrip('/')}/{project}/"
        try:
            links.append(_find_with_retries(page, filename, timeout))
        except HttpError as error:
            failures.append(f"{redacted(page)} ({error})")
    return links, failures


def _find_with_retries(page: str, filename: str, timeout: float) -> Link:
    for pause in (1.0, 2.0):
        try:
            return _find_on_page(page, filename, timeout)
        except HttpError as error:
            if not error.transient:
                raise
            time.sleep(pause)
    return _find_on_page(page, filename, timeout)


def indexes() -> list[str]:
    """The simple indexes of pip's configuration, in pip's order: index-url, then extra-index-url."""
    settings = _pip_settings()
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        return []
    main = settings.get("index-url", PUBLIC_INDEX).split()
    return list(dict.fromkeys([*main, *settings.get("extra-index-url", "").split()]))


def _pip_settings() -> dict[str, str]:
    """The settings of pip's configuration files and of the environment; later ones override, as in pip."""
    settings: dict[str, str] = {}
    for path in _pip_files():
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError):
            continue  # pip itself reports it; the other files still apply
        for section in ("global", "download"):
            if parser.has_section(section):
                settings.update({name.replace("_", "-"): value for name, value in parser.items(section)})
    for name in ("index-url", "extra-index-url", "no-index"):
        if value := os.environ.get("PIP_" + name.upper().replace("-", "_")):
            settings[name] = value
    return settings


def _pip_files() -> Iterator[Path]:
    chosen = os.environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:  # pip reads no files then
        return
    home = Path.home()
    if sys.platform == "win32":
        yield Path(os.environ.get("PROGRAMDATA", "C:/ProgramData")) / "pip/pip.ini"
        yield home / "pip/pip.ini"
        yield Path(os.environ.get("APPDATA", str(home))) / "pip/pip.ini"
        yield Path(sys.prefix) / "pip.ini"
    else:
        for folder in reversed(os.environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")):
            yield Path(folder) / "pip/pip.conf"
        yield Path("/etc/pip.conf")
        yield home / ".pip/pip.conf"
        yield home / "Library/Application Support/pip/pip.conf"
        yield Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf"
        yield Path(sys.prefix) / "pip.conf"
    if chosen:
        yield Path(chosen)


def _find_on_page(page: str, filename: str, timeout: float) -> Link:
    if urlsplit(page).scheme == "file":
        page += "index.html"
    response = open_url(page, headers={"Accept": _ACCEPT}, timeout=timeout)
    try:
        content = _read(response)
        base = (
            response.geturl() if redacted(response.geturl()) != redacted(page) else page
        )  # keeps credentials in it
        links = _links(content, base, response.headers.get_content_type())
    finally:
        response.close()
    for link in links:
        if unquote(urlsplit(link.url).path).rpartition("/")[2] == filename:
            return link
    raise HttpError(f"it does not list {filename}")


def _read(response: Response) -> str:
    try:
        content = response.read(_LARGEST_PAGE + 1)
    except Exception as error:
        raise http_error(error) from error
    if len(content) > _LARGEST_PAGE:
        raise HttpError("its page is too large")
    return content.decode("utf-8", errors="replace")


def _links(content: str, base: str, content_type: str) -> list[Link]:
    """The links of a simple index page: JSON (PEP 691) or HTML (PEP 503)."""
    if content_type.endswith("json"):
        try:
            files = json.loads(content)["files"]
            return [Link(urljoin(base, file["url"]), file.get("hashes", {}).get("sha256")) for file in files]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HttpError("its JSON page is not a simple index") from error
    parser = _Anchors()
    parser.feed(content)
    return [_link(urljoin(urljoin(base, parser.base), address)) for address in parser.addresses]


def _link(address: str) -> Link:
    url, fragment = urldefrag(address)
    name, _, value = fragment.partition("=")
    return Link(url, value if name == "sha256" else None)


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href")
        if address and tag == "a":
            self.addresses.append(address)
        elif address and tag == "base" and not self.base:
            self.base = address
