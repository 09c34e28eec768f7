"""`regard serve`: run folders over HTTP, and a page to try them."""

import errno
import os
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import RegardError
from regard.limits import MAX_BATCH_SIZE

if TYPE_CHECKING:
    from regard.server.app import Application
    from regard.server.http_server import ConnectionLimits

TOKEN_VARIABLE = "REGARD_TOKEN"
"""The environment variable with the token, used without --token-file."""


def serve(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="Run folders; NAME=RUN sets the model name (default: the folder's name)."
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the access token that clients must send.", show_default="$REGARD_TOKEN, or none"
        ),
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Sentences that may wait per model.")] = 512,
    batch: Annotated[
        int,
        typer.Option(min=1, max=MAX_BATCH_SIZE, help="Maximum sentences per batch."),
    ] = 64,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds until a request times out.")] = 30.0,
    header_timeout: Annotated[
        float, typer.Option(min=0.01, help="Seconds for a request's headers to arrive.")
    ] = 10.0,
    connections: Annotated[int, typer.Option(min=1, help="Maximum open connections.")] = 500,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another accepted host name; '*' accepts any.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="A site whose pages may send requests (CORS), e.g. https://example.org."),
    ] = None,
) -> None:
    """Serve run folders over HTTP, with a web page; prints its address once it accepts connections.

    Examples:

    regard serve runs/picturebook

    regard serve german=runs/picturebook runs/mine --port 0 --token-file token.txt
    """
    if missing := [package for package in ("fastapi", "uvicorn") if find_spec(package) is None]:
        raise RegardError(f"`regard serve` needs {' and '.join(missing)}: pip install 'regard[serve]'")
    folders, token = folders_by_name(runs), read_token(token_file)
    with bound_socket(host, port) as listener:
        if token is None and not is_loopback(listener):
            log(f"anyone who can reach {host} may use this server; --token-file makes it require a token")

        from regard.server.app import create_app
        from regard.server.http_server import ConnectionLimits
        from regard.server.middleware import AccessRules
        from regard.server.model_registry import open_registry

        rules = AccessRules(accepted_hosts(host, allow_host or ()), allow_origin or (), token)
        app = create_app(open_registry(folders, queue, batch, timeout), rules)
        run_server(listener, app, ConnectionLimits(header_timeout, connections))


def run_server(listener: socket.socket, app: "Application", limits: "ConnectionLimits") -> None:
    """Serve until SIGINT or SIGTERM, answer the accepted requests, and return."""
    from regard.server.http_server import Server
    from regard.tasks.signals import stop_on_signals

    def on_listening() -> None:
        log(f"serving {', '.join(app.registry.models)}; Ctrl-C stops")
        print(url_of(listener), flush=True)

    with stop_on_signals() as stop:
        Server(app, stop, on_listening, limits).run([listener])
    app.join()
    log(f"stopped: {int(app.registry.metrics.requests.total()):,} requests were answered")


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket bound to the address; port 0 chooses a free one.

    Raises:
        RegardError: the host is unknown, or the port is in use or not permitted.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise RegardError(f"--host {host}: there is no such address") from None
    # asyncio sets TCP_NODELAY only if the protocol is given; without it a response's body is delayed by 40 ms.
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise RegardError(
                f"port {port} of {host} is in use; choose another with --port, or 0 for a free one"
            ) from None
        reason = (error.strerror or str(error)).lower()
        raise RegardError(f"cannot listen on port {port} of {host}: {reason}") from None
    return listener


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can connect."""
    return ip_address(listener.getsockname()[0]).is_loopback


def folders_by_name(runs: Sequence[str]) -> dict[str, str]:
    """Run folders by model name: that of `NAME=RUN`, or the folder's own."""
    pairs = []
    for run in runs:
        name, equals, folder = run.partition("=")
        named = equals and not Path(run).exists()
        pairs.append((name, folder) if named else (Path(run).resolve().name, run))
    for name, count in Counter(name for name, _ in pairs).items():
        if not name:
            raise RegardError("a model needs a name: NAME=RUN")
        if count > 1:
            raise RegardError(f"{count} runs are named {name}; name them with NAME=RUN")
    return dict(pairs)


def read_token(path: Path | None) -> str | None:
    """The access token from the file or the environment; None without both."""
    if path is None:
        content, origin = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
        if content is None:
            return None
    else:
        try:
            content, origin = path.read_text("utf-8"), str(path)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise RegardError(f"--token-file {path} cannot be read: {reason.lower()}") from None
    token = content.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise RegardError(
            f"{origin} holds no token; expected one word of ASCII letters, digits and punctuation"
        )
    return token


def accepted_hosts(host: str, allowed: Sequence[str]) -> set[str]:
    """Host names that clients may use for this server."""
    hosts = {"localhost", "127.0.0.1", "::1", host.lower(), *(name.lower() for name in allowed)}
    return hosts | {socket.gethostname().lower()} if host in ("0.0.0.0", "::") else hosts


def log(message: str) -> None:
    print(f"regard: {message}", file=sys.stderr, flush=True)
