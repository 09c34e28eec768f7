"""`regard serve`: run folders over HTTP, and a page to try them."""

import os
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import within
from regard.errors import RegardError
from regard.limits import MAX_BATCH_SIZE

if TYPE_CHECKING:
    from regard.server.application import Application
    from regard.server.connections import ConnectionLimits

TOKEN_VARIABLE = "REGARD_TOKEN"
"""The environment variable that holds the token, where --token-file is not given."""


def serve(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN", help="Run folders; NAME=RUN names one, else its folder does.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with the token clients must send.", show_default="$REGARD_TOKEN, or none"),
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Sentences that may wait for a model.")] = 512,
    batch: Annotated[
        int,
        typer.Option(callback=within("--batch", MAX_BATCH_SIZE), help="Sentences translated together."),
    ] = 64,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds a request may wait for its answer.")] = 30.0,
    header_timeout: Annotated[
        float, typer.Option(min=0.01, help="Seconds for a request's headers to arrive.")
    ] = 10.0,
    connections: Annotated[int, typer.Option(min=1, help="Connections open at once.")] = 500,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name the server goes by; '*' for any.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A site whose pages may ask, such as https://example.org.")
    ] = None,
) -> None:
    """Serve run folders over HTTP, with a page to try them; its address is printed when it listens.

    Examples:

    regard serve runs/picturebook

    regard serve german=runs/picturebook runs/mine --port 0 --token-file token.txt
    """
    from regard.server.places import bound_socket, is_loopback

    if missing := [package for package in ("fastapi", "uvicorn") if find_spec(package) is None]:
        raise RegardError(f"serving needs {' and '.join(missing)}: pip install 'regard[serve]'")
    folders, token = folders_by_name(runs), read_token(token_file)
    with bound_socket(host, port) as listener:
        if token is None and not is_loopback(listener):
            log(f"anyone who reaches {host} may use this server; --token-file asks them for a token")

        from regard.server.access import Rules
        from regard.server.application import application
        from regard.server.connections import ConnectionLimits
        from regard.server.model_registry import open_registry

        rules = Rules(served_names(host, allow_host or ()), allow_origin or (), token)
        app = application(open_registry(folders, queue, batch, timeout), rules)
        answer_requests(listener, app, ConnectionLimits(header_timeout, connections))


def answer_requests(listener: socket.socket, app: "Application", limits: "ConnectionLimits") -> None:
    """Answer requests until SIGINT or SIGTERM; then answer those accepted, and return."""
    from regard.server.places import address_of
    from regard.server.running import Server
    from regard.tasks.signals import stop_on_signals

    def listening() -> None:
        log(f"serving {', '.join(app.registry.models)}; Ctrl-C stops")
        print(address_of(listener), flush=True)

    with stop_on_signals() as stop:
        Server(app, stop, listening, limits).run([listener])
    app.join()
    log(f"stopped: {int(app.registry.metrics.requests.total()):,} requests were answered")


def folders_by_name(runs: Sequence[str]) -> dict[str, str]:
    """Run folders by the name they are served under: that of `NAME=RUN`, or the folder's own."""
    pairs = []
    for run in runs:
        name, equals, folder = run.partition("=")
        named = equals and not Path(run).exists()
        pairs.append((name, folder) if named else (Path(run).resolve().name, run))
    for name, count in Counter(name for name, _ in pairs).items():
        if not name:
            raise RegardError("a model needs a name: NAME=RUN")
        if count > 1:
            raise RegardError(f"{count} runs are named {name}; tell them apart with NAME=RUN")
    return dict(pairs)


def read_token(path: Path | None) -> str | None:
    """The token of the file or of the environment; None where neither is given."""
    if path is None:
        content, origin = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
        if content is None:
            return None
    else:
        try:
            content, origin = path.read_text("utf-8"), str(path)
        except (OSError, UnicodeDecodeError) as problem:
            reason = getattr(problem, "strerror", None) or "it is not text"
            raise RegardError(f"--token-file {path} cannot be read: {reason.lower()}") from None
    token = content.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise RegardError(f"{origin} holds no token: one word of ASCII letters, digits and signs is wanted")
    return token


def served_names(host: str, more: Sequence[str]) -> set[str]:
    """Host names that a client may use for this server."""
    names = {"localhost", "127.0.0.1", "::1", host.lower(), *(name.lower() for name in more)}
    return names | {socket.gethostname().lower()} if host in ("0.0.0.0", "::") else names


def log(sentence: str) -> None:
    print(f"regard: {sentence}", file=sys.stderr, flush=True)
