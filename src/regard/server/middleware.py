"""Middleware around every route: access checks before it, security headers, log and metrics after it."""

import asyncio
import hmac
import ipaddress
import sys
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from fastapi import Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.server.metrics import Metrics
from regard.server.schemas import error_response, internal_error

MAX_BODY_BYTES = 1 << 20
MAX_DISCARDED_BYTES = 16 * MAX_BODY_BYTES
"""Bytes of a body too large that are read and dropped, so that the client receives the reason."""
BODY_TIMEOUT = 20.0
"""Seconds for a request's body to arrive."""
MAX_HEADER_BYTES = 1 << 16
"""Bytes of the request line and the headers."""
MAX_HEADERS = 100
HEADERS_TOO_LARGE = (
    f"the headers are more than {MAX_HEADER_BYTES:,} bytes or more than {MAX_HEADERS}; send fewer"
)
OVERLOADED = "overloaded"
"""Key of a request's state that the server sets when its connection exceeds the limit."""
ANY_HOST = "*"

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Scripts, styles and requests of this server only."""
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
MAX_LOGGED_PATH = 60
"""Characters of an unknown path in the log."""
REFUSAL_REASONS = {
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
"""The metrics label of a refused request, by its status."""


@dataclass(frozen=True)
class AccessRules:
    """Host names, origins and token that every request is checked against."""

    hosts: Collection[str]
    """Accepted Host headers; `*` accepts any. Checking them prevents DNS rebinding."""
    origins: Collection[str] = ()
    """Other sites whose pages may send requests."""
    token: str | None = field(default=None, repr=False)


class BodyTooLarge(Exception):
    """A body exceeds `MAX_BODY_BYTES`."""


class AccessMiddleware:
    """Checks host, origin, token, header size, body size and body timeout."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self.app, self.rules = app, rules
        self.closed = False
        """Whether the server is stopping."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self.refusal(scope, headers)
        if refusal is None and ("transfer-encoding" in headers or headers.get("content-length", "0") != "0"):
            try:
                async with asyncio.timeout(BODY_TIMEOUT):
                    body = await read_body(receive, headers)
            except BodyTooLarge:
                message = f"the request has more than {MAX_BODY_BYTES:,} bytes; send it in pieces"
                refusal = error_response(413, message, {"Connection": "close"})
            except TimeoutError:
                message = f"the request did not arrive within {BODY_TIMEOUT:.0f} s"
                refusal = error_response(408, message, {"Connection": "close"})
            except ConnectionError:
                return  # the client disconnected before its request was complete
            else:
                receive = with_body(body, receive)
        await (refusal or self.app)(scope, receive, send)

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The response to a request that fails a check; None if all pass."""
        if len(headers) > MAX_HEADERS or header_bytes(scope, headers) > MAX_HEADER_BYTES:
            return error_response(431, HEADERS_TOO_LARGE, {"Connection": "close"})
        if (hosts := len(headers.getlist("host"))) > 1:
            return error_response(
                400, f"the request has {hosts} Host headers; send one", {"Connection": "close"}
            )
        if scope.get("state", {}).get(OVERLOADED):
            message = "the server has reached its limit of open connections; try again in a few seconds"
            return error_response(503, message, {"Connection": "close", "Retry-After": "2"})
        if not self.is_own_host(host_of(headers.get("host", ""))):
            return error_response(
                421,
                "this server does not answer to the host name of the request; "
                "start it with --allow-host NAME to accept it",
            )
        if not self.is_allowed_origin(headers):
            return error_response(
                403, "pages of other sites may not use this server; start it with --allow-origin to permit one"
            )
        if self.rules.token is not None and not is_public(scope["path"]) and not self.has_token(headers):
            return error_response(
                401,
                "this server requires an access token; send the header Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer"},
            )
        if self.closed and scope["method"] == "POST":
            message = "the server is stopping; requests accepted before are still answered"
            return error_response(503, message, {"Connection": "close", "Retry-After": "5"})
        return None

    def is_own_host(self, host: str) -> bool:
        hosts = self.rules.hosts
        return ANY_HOST in hosts or host in hosts or (is_ip_address(host) and is_wildcard(hosts))

    def is_allowed_origin(self, headers: Headers) -> bool:
        """Whether the Origin header is absent, this server's own address, or an allowed site."""
        origin = headers.get("origin")
        if origin is None or origin in self.rules.origins:
            return True
        try:
            return urlsplit(origin).netloc == headers.get("host")
        except ValueError:
            return False

    def has_token(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        expected = (self.rules.token or "").encode()
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), expected)


def is_public(path: str) -> bool:
    """Paths that need no token: health, the web page without data, and attention pages with a secret name."""
    return path in ("/", "/health") or path.startswith(("/page/", "/attention/"))


def host_of(header: str) -> str:
    """The host in a Host header, without its port and the brackets of an IPv6 address."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_wildcard(hosts: Collection[str]) -> bool:
    """Whether the server is bound to every address of the machine, so that each of them is a valid host."""
    return "0.0.0.0" in hosts or "::" in hosts


def header_bytes(scope: Scope, headers: Headers) -> int:
    """The size of the request line and headers as they were sent, up to optional white space."""
    line = len(scope["method"]) + len(scope.get("raw_path") or b"") + len(scope["query_string"])
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in headers.raw)


async def read_body(receive: Receive, headers: Headers) -> bytes:
    """The whole body of a request.

    Raises:
        BodyTooLarge: it exceeds `MAX_BODY_BYTES`; up to `MAX_DISCARDED_BYTES` were read.
        ConnectionError: the client disconnected.
    """
    content_length = headers.get("content-length", "")
    if content_length.isdigit() and int(content_length) > MAX_DISCARDED_BYTES:
        raise BodyTooLarge
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= MAX_DISCARDED_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        size += len(message.get("body", b""))
        if size <= MAX_BODY_BYTES:
            parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    if size > MAX_BODY_BYTES:
        raise BodyTooLarge
    return b"".join(parts)


def with_body(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body first, and then what the client sends, such as a disconnect."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_body_first() -> Message:
        return messages.pop() if messages else await receive()

    return receive_body_first


class RequestLog:
    """The outermost middleware: security headers, a log line and metrics per request, and uncaught errors."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log: Callable[[str], object]) -> None:
        self.app, self.metrics, self.log = app, metrics, log
        self.active = 0
        """Requests that are being answered."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        self.active += 1
        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as error:
            self.log(traceback_without_message(error))
            if not status:
                await internal_error()(scope, receive, send_with_headers)
        finally:
            self.active -= 1
            self.record(scope, status, time.perf_counter() - start)

    def record_incomplete(self, status: int) -> None:
        """Log and count a request that was refused before its headers were complete."""
        self.metrics.requests.add("other", "other", str(status))
        self.metrics.refused.add(REFUSAL_REASONS[status])
        self.log(f"incomplete request {status}")

    def record(self, scope: Scope, status: int, seconds: float) -> None:
        """Log and count a request by its route template, so that secret names in a path are not logged."""
        route = getattr(scope.get("route"), "path", None)
        method = scope["method"] if route else "other"
        self.metrics.requests.add(method, route or "other", str(status or "gone"))
        self.metrics.seconds.observe(route or "other", number=seconds)
        if status in REFUSAL_REASONS:
            self.metrics.refused.add(REFUSAL_REASONS[status])
        path = route or quote(scope["path"])[:MAX_LOGGED_PATH]
        self.log(f"{scope['method'][:10]} {path} {status or 'gone'} {1000 * seconds:.0f} ms")


def traceback_without_message(error: Exception) -> str:
    """The traceback and the type of an error; its message might contain a user's text."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    return f"{frames}{type(error).__name__}"


def log_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
