"""Opening an address safely: HTTPS only, no downgrade on the way, passwords never shown, failures in words."""

import base64
import http.client
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_WORTH_RETRYING = {408, 425, 429, 500, 502, 503, 504}


class Response(Protocol):
    """What is used of urllib's answer."""

    status: int | None
    headers: Message

    def read(self, amount: int = ...) -> bytes: ...
    def close(self) -> None: ...
    def geturl(self) -> str: ...


@dataclass(eq=False)
class WebFailure(Exception):
    """An address that did not answer as hoped; ``passing`` when trying again may help."""

    reason: str
    passing: bool = False
    status: int | None = None

    def __str__(self) -> str:
        return self.reason


def open_url(url: str, *, headers: Mapping[str, str] | None = None, timeout: float = 30.0) -> Response:
    """The answer to a GET; a name and password inside the address are sent to its own host only."""
    _refuse_insecure(url)
    plain, authorization = _without_password(url)
    request = urllib.request.Request(plain, headers={"User-Agent": "regard", **(headers or {})})
    if authorization:
        request.add_unredirected_header("Authorization", authorization)
    opener = urllib.request.build_opener(_SafeRedirects)
    try:
        response: Response = opener.open(request, timeout=timeout)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise failure(error) from error
    return response


def shown(url: str) -> str:
    """The address as it may appear in a message: without name, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def failure(error: Exception) -> WebFailure:
    """What urllib, the socket or the protocol raised, as a few words and whether to try again."""
    match error:
        case WebFailure():
            return error
        case urllib.error.HTTPError():
            error.close()
            return WebFailure(f"HTTP {error.code} {error.reason}", error.code in _WORTH_RETRYING, error.code)
        case urllib.error.URLError(reason=Exception() as reason):
            return failure(reason)
        case socket.gaierror():
            return WebFailure("the host name is not known here")
        case ssl.SSLError():
            return WebFailure(f"the secure connection failed ({error.reason or error})")
        case TimeoutError():
            return WebFailure("no answer in time", passing=True)
        case ConnectionRefusedError() | FileNotFoundError() | PermissionError():
            return WebFailure((error.strerror or str(error)).lower())
        case OSError() | http.client.HTTPException():
            return WebFailure(f"the connection broke ({str(error) or type(error).__name__})", passing=True)
    return WebFailure(str(error))


def _refuse_insecure(url: str) -> None:
    parts = urlsplit(url)
    secure = parts.scheme in ("https", "file") or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not secure:
        raise WebFailure(f"{parts.scheme or 'no scheme'} is not allowed, only https")


def _without_password(url: str) -> tuple[str, str | None]:
    """The address without ``name:password@``, and the header that carries them instead."""
    parts = urlsplit(url)
    account, at, host = parts.netloc.rpartition("@")
    plain = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    if not at:
        return plain, None
    name, _, password = account.partition(":")
    token = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode("ascii")
    return plain, f"Basic {token}"


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects as usual, but never from https to anything less."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _refuse_insecure(newurl)
        if urlsplit(newurl).scheme == "file":
            raise WebFailure("redirected to a local file, which is not allowed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
