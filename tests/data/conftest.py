"""A real web server on the loopback, and the folder of real data where there is one."""

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


@dataclass
class Page:
    """The server's response at one address."""

    content: bytes = b""
    status: int = 200
    kind: str = "application/octet-stream"
    ranges: bool = True
    cut: list[int] = field(default_factory=list)
    """The next answers break off after so many bytes, though all were announced."""
    errors: list[int] = field(default_factory=list)
    """The next answers are these status codes."""
    location: str = ""
    delay: float = 0


class Site:
    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.requests: list[tuple[str, str | None]] = []
        """Path and Range header of every request."""
        self.headers: list[dict[str, str]] = []
        self.address = ""

    def add(self, path: str, content: bytes = b"", **how: object) -> str:
        self.pages[path] = Page(content, **how)  # type: ignore[arg-type]
        return self.address + path


def answer(handler: BaseHTTPRequestHandler, site: Site) -> None:
    page = site.pages.get(handler.path)
    wanted = handler.headers.get("Range")
    site.requests.append((handler.path, wanted))
    site.headers.append(dict(handler.headers))
    if page is None:
        return handler.send_error(404)
    time.sleep(page.delay)
    if page.errors:
        return handler.send_error(page.errors.pop(0))
    start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and page.ranges else 0
    if start and start >= len(page.content):
        return handler.send_error(416)
    handler.send_response(206 if start else page.status)
    if page.location:
        handler.send_header("Location", page.location)
    if start:
        handler.send_header("Content-Range", f"bytes {start}-{len(page.content) - 1}/{len(page.content)}")
    rest = page.content[start:]
    handler.send_header("Content-Type", page.kind)
    handler.send_header("Content-Length", str(len(rest)))
    handler.end_headers()
    handler.wfile.write(rest[: page.cut.pop(0)] if page.cut else rest)
    handler.close_connection = True
    return None


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, site)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = Path(os.environ.get("REGARD_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (folder / "multi30k").is_dir():
        pytest.skip(f"no real data in {folder}; set REGARD_DATA to the folder that holds multi30k/")
    return folder


@pytest.fixture
def own_pip(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No pip settings but those the test makes."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch
