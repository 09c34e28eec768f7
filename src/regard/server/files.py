"""The files of the page, read once from the package."""

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from regard.viz.html_page import VIEWER

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFile:
    """What a browser is sent, and the tag by which it knows its copy again."""

    content: bytes
    media_type: str
    tag: str


def page_files() -> dict[str, PageFile]:
    """The files by name; colours and type are the viewer's."""
    found = {}
    for each in (*files("regard.server").joinpath("static").iterdir(), VIEWER / "theme.css"):
        kind = each.name.rpartition(".")[2]
        if kind in MEDIA_TYPES:
            content = each.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            found[each.name] = PageFile(content, MEDIA_TYPES[kind], tag)
    return found
