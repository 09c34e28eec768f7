"""Who is let in: who knows the server's name and token, brings a body of bearable size, and is not too late."""

import asyncio
import hmac
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from fastapi import Response
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.server.answers import refusal

LARGEST_BODY = 1 << 20
"""Bytes of a request."""
DRAINED = 16 * LARGEST_BODY
"""Bytes of a body too large that are read and dropped, so that its sender hears why it was refused."""
PATIENCE = 20.0
"""Seconds in which a request's body must have come."""
LARGEST_HEADERS = 1 << 16
"""Bytes of a request's first line and headers."""
MOST_HEADERS = 100
TOO_LARGE_HEADERS = (
    f"the headers are more than {LARGEST_HEADERS:,} bytes or more than {MOST_HEADERS}; send fewer"
)
OVERLOADED = "overloaded"
"""Set in a request's state by the server, where it has as many connections as it takes."""
ANY = "*"


@dataclass(frozen=True)
class Rules:
    """Limits and credentials that every request is checked against."""

    names: Collection[str]
    """Host names the server answers to; `*` means any. Other names are another site's, led here by its DNS."""
    origins: Collection[str] = ()
    """Sites whose pages may ask as this server's own page does."""
    token: str | None = field(default=None, repr=False)


class TooLarge(Exception):
    """A body has more bytes than are read."""


class AccessMiddleware:
    """Lets a request through to the application, or answers it with the reason why not."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self.app, self.rules = app, rules
        self.closed = False
        """Whether the server is stopping."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self.refused(scope, headers)
        if refused is None and ("transfer-encoding" in headers or headers.get("content-length", "0") != "0"):
            try:
                async with asyncio.timeout(PATIENCE):
                    body = await whole_body(receive, headers)
            except TooLarge:
                sentence = f"the request has more than {LARGEST_BODY:,} bytes; send it in pieces"
                refused = refusal(413, sentence, {"Connection": "close"})
            except TimeoutError:
                sentence = f"the request did not come within {PATIENCE:.0f} s"
                refused = refusal(408, sentence, {"Connection": "close"})
            except ConnectionError:
                return  # the client left before it had asked
            else:
                receive = with_body(body, receive)
        await (refused or self.app)(scope, receive, send)

    def refused(self, scope: Scope, headers: Headers) -> Response | None:
        """Why a request is not let through, if it is not."""
        if len(headers) > MOST_HEADERS or header_bytes(scope, headers) > LARGEST_HEADERS:
            return refusal(431, TOO_LARGE_HEADERS, {"Connection": "close"})
        if (hosts := len(headers.getlist("host"))) > 1:
            return refusal(400, f"the request has {hosts} Host headers; send one", {"Connection": "close"})
        if scope.get("state", {}).get(OVERLOADED):
            sentence = "the server has as many open connections as it takes; try again in a few seconds"
            return refusal(503, sentence, {"Connection": "close", "Retry-After": "2"})
        if not self.knows(host_of(headers.get("host", ""))):
            return refusal(
                421,
                "this server does not answer to the host name that was asked for; "
                "start it with --allow-host NAME if it should",
            )
        if not self.own_page(headers):
            return refusal(403, "pages of other sites may not ask this server")
        if self.rules.token is not None and not is_open(scope["path"]) and not self.has_token(headers):
            return refusal(
                401,
                "this server wants a token: send the header Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer"},
            )
        if self.closed and scope["method"] == "POST":
            sentence = "the server is stopping; what it had accepted is being finished"
            return refusal(503, sentence, {"Connection": "close", "Retry-After": "5"})
        return None

    def knows(self, host: str) -> bool:
        names = self.rules.names
        return ANY in names or host in names or (is_address(host) and is_wildcard(names))

    def own_page(self, headers: Headers) -> bool:
        """Whether a browser that tells where the asking page is from tells our own name, or an allowed one."""
        origin = headers.get("origin")
        if origin is None or origin in self.rules.origins:
            return True
        try:
            return urlsplit(origin).netloc == headers.get("host")
        except ValueError:
            return False

    def has_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        wanted = (self.rules.token or "").encode()
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), wanted)


def is_open(path: str) -> bool:
    """What needs no token: the health, the page without its answers, and views known by a secret name."""
    return path in ("/", "/health") or path.startswith(("/page/", "/attention/"))


def host_of(header: str) -> str:
    """The name in a Host header, without its port and the brackets of an IPv6 address."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_wildcard(names: Collection[str]) -> bool:
    """Whether the server listens on every address of the machine: then each of them is its name."""
    return "0.0.0.0" in names or "::" in names


def header_bytes(scope: Scope, headers: Headers) -> int:
    """The size of the request line and headers as they were sent, up to optional white space."""
    line = len(scope["method"]) + len(scope.get("raw_path") or b"") + len(scope["query_string"])
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in headers.raw)


async def whole_body(receive: Receive, headers: Headers) -> bytes:
    """All of a request's body, if it is not too large."""
    told = headers.get("content-length", "")
    if told.isdigit() and int(told) > DRAINED:
        raise TooLarge
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= DRAINED:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        size += len(message.get("body", b""))
        if size <= LARGEST_BODY:
            parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    if size > LARGEST_BODY:
        raise TooLarge
    return b"".join(parts)


def with_body(body: bytes, receive: Receive) -> Receive:
    """What the application hears: the body at once, and then whether the client leaves."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def hear() -> Message:
        return waiting.pop() if waiting else await receive()

    return hear
