"""HTTP GET for downloads: HTTPS only, also after redirects; credentials never appear in messages."""

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
_TRANSIENT_STATUS = {408, 425, 429, 500, 502, 503, 504}


class Response(Protocol):
    """The part of urllib's response that is used."""

    status: int | None
    headers: Message

    def read(self, amount: int = ...) -> bytes: ...
    def close(self) -> None: ...
    def geturl(self) -> str: ...


@dataclass(eq=False)
class HttpError(Exception):
    """A failed request; ``transient`` if a retry may succeed."""

    reason: str
    transient: bool = False
    status: int | None = None

    def __str__(self) -> str:
        return self.reason


def open_url(url: str, *, headers: Mapping[str, str] | None = None, timeout: float = 30.0) -> Response:
    """The response to a GET request; credentials in the URL are sent to its own host only.

    Raises:
        HttpError: The URL is not HTTPS, or the request failed.
    """
    _refuse_insecure(url)
    plain, authorization = _split_credentials(url)
    request = urllib.request.Request(plain, headers={"User-Agent": "regard", **(headers or {})})
    if authorization:
        request.add_unredirected_header("Authorization", authorization)
    opener = urllib.request.build_opener(_SafeRedirects)
    try:
        response: Response = opener.open(request, timeout=timeout)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise http_error(error) from error
    return response


def redacted(url: str) -> str:
    """The URL for messages: without credentials, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def http_error(error: Exception) -> HttpError:
    """An exception of urllib, the socket or the protocol as an HttpError."""
    match error:
        case HttpError():
            return error
        case urllib.error.HTTPError():
            error.close()
            return HttpError(f"HTTP {error.code} {error.reason}", error.code in _TRANSIENT_STATUS, error.code)
        case urllib.error.URLError(reason=Exception() as reason):
            return http_error(reason)
        case socket.gaierror():
            return HttpError("the host name cannot be resolved")
        case ssl.SSLError():
            return HttpError(f"the secure connection failed ({error.reason or error})")
        case TimeoutError():
            return HttpError("no answer in time", transient=True)
        case ConnectionRefusedError() | FileNotFoundError() | PermissionError():
            return HttpError((error.strerror or str(error)).lower())
        case OSError() | http.client.HTTPException():
            return HttpError(f"the connection broke ({str(error) or type(error).__name__})", transient=True)
    return HttpError(str(error))


def _refuse_insecure(url: str) -> None:
    parts = urlsplit(url)
    secure = parts.scheme in ("https", "file") or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not secure:
        raise HttpError(f"{parts.scheme or 'no scheme'} is not allowed, only https")


def _split_credentials(url: str) -> tuple[str, str | None]:
    """The URL without ``name:password@``, and the Authorization header for them."""
    parts = urlsplit(url)
    account, at, host = parts.netloc.rpartition("@")
    plain = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    if not at:
        return plain, None
    name, _, password = account.partition(":")
    token = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode("ascii")
    return plain, f"Basic {token}"


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from HTTPS to an insecure scheme."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _refuse_insecure(newurl)
        if urlsplit(newurl).scheme == "file":
            raise HttpError("redirected to a local file, which is not allowed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
