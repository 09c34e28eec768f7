"""What every answer gets on its way out: protecting headers, a line in the log, a place in the numbers."""

import sys
import time
import traceback
from collections.abc import Callable
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.server.answers import own_mistake
from regard.server.metrics import Metrics

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser may do with an answer: run and style it with this server's own files, and ask this server."""

PROTECTING = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
LONGEST_PATH = 60
REASONS = {
    401: "token",
    403: "origin",
    408: "slow",
    413: "size",
    421: "host",
    431: "headers",
    422: "content",
    429: "full",
    503: "unavailable",
    504: "time-out",
}
"""Why a request was refused, by its status."""


class RequestLog:
    """The outermost layer: it sees each request begin and end, and an error that nobody caught."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log: Callable[[str], object]) -> None:
        self.app, self.metrics, self.log = app, metrics, log
        self.open = 0
        """Requests that are being answered."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def protected_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in PROTECTING.items():
                    headers.setdefault(name, value)
            await send(message)

        self.open += 1
        try:
            await self.app(scope, receive, protected_send)
        except Exception as problem:
            self.log(without_words(problem))
            if not status:
                await own_mistake()(scope, receive, protected_send)
        finally:
            self.open -= 1
            self.tell(scope, status, time.perf_counter() - begun)

    def tell_refused(self, status: int) -> None:
        """One line and one count for a request that was refused before its headers were complete."""
        self.metrics.requests.add("other", "other", str(status))
        self.metrics.refused.add(REASONS[status])
        self.log(f"incomplete request {status}")

    def tell(self, scope: Scope, status: int, seconds: float) -> None:
        """One line and one count; of a route with a name in its path, the path as it is written in the code."""
        route = getattr(scope.get("route"), "path", None)
        method = scope["method"] if route else "other"
        self.metrics.requests.add(method, route or "other", str(status or "gone"))
        self.metrics.seconds.observe(route or "other", number=seconds)
        if status in REASONS:
            self.metrics.refused.add(REASONS[status])
        path = route or quote(scope["path"])[:LONGEST_PATH]
        self.log(f"{scope['method'][:10]} {path} {status or 'gone'} {1000 * seconds:.0f} ms")


def without_words(problem: Exception) -> str:
    """Where an error arose and of what kind it is; its message might hold a user's text."""
    places = "".join(traceback.format_tb(problem.__traceback__))
    return f"{places}{type(problem).__name__}"


def standard_error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
