"""`regard serve`: run folders behind HTTP, and a page to try them."""

import os
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from regard.errors import RegardError
from regard.server.places import address_of, bound_socket, is_loopback

TOKEN = "REGARD_TOKEN"
"""The environment's token, where no file is named."""


@dataclass(frozen=True)
class Serving:
    """What `regard serve` was asked for."""

    runs: Sequence[str]
    host: str
    port: int
    token_file: Path | None
    queue: int
    batch: int
    timeout: float
    hosts: Sequence[str]
    origins: Sequence[str]
    header_timeout: float = 10.0
    connections: int = 500


def run(asked: Serving) -> None:
    """Load the models, listen, and come back when asked to stop and all that was accepted is answered."""
    if missing := [package for package in ("fastapi", "uvicorn") if find_spec(package) is None]:
        raise RegardError(f"serving needs {' and '.join(missing)}: pip install 'regard[serve]'")
    named, token = names_of(asked.runs), read_token(asked.token_file)
    with bound_socket(asked.host, asked.port) as listener:
        if token is None and not is_loopback(listener):
            say(f"anyone who reaches {asked.host} may use this server; --token-file asks them for a token")
        serve_at(listener, named, token, asked)


def serve_at(listener: socket.socket, named: dict[str, str], token: str | None, asked: Serving) -> None:
    """Load the models and answer requests until a signal comes."""
    from regard.server.application import application
    from regard.server.connections import ConnectionLimits
    from regard.server.gate import Rules
    from regard.server.house import open_house
    from regard.server.running import Server
    from regard.tasks.signals import asked_to_stop

    rules = Rules(served_names(asked.host, asked.hosts), asked.origins, token)
    app = application(open_house(named, asked.queue, asked.batch, asked.timeout), rules)

    def listening() -> None:
        say(f"serving {', '.join(named)}; Ctrl-C stops")
        print(address_of(listener), flush=True)

    with asked_to_stop() as stop:
        limits = ConnectionLimits(asked.header_timeout, asked.connections)
        Server(app, stop, listening, limits).run([listener])
    app.join()
    say(f"stopped: {int(app.house.metrics.requests.total()):,} requests were answered")


def names_of(runs: Sequence[str]) -> dict[str, str]:
    """The run folders by name: `NAME=RUN`, or the folder's own."""
    pairs = []
    for each in runs:
        name, equals, folder = each.partition("=")
        named = equals and not Path(each).exists()
        pairs.append((name, folder) if named else (Path(each).resolve().name, each))
    for name, times in Counter(name for name, _ in pairs).items():
        if not name:
            raise RegardError("a model needs a name: NAME=RUN")
        if times > 1:
            raise RegardError(f"{times} runs are named {name}; tell them apart with NAME=RUN")
    return dict(pairs)


def read_token(path: Path | None) -> str | None:
    """The token of the file or of the environment; none where neither is given."""
    if path is None:
        found, where = os.environ.get(TOKEN), TOKEN
        if found is None:
            return None
    else:
        try:
            found, where = path.read_text("utf-8"), str(path)
        except (OSError, UnicodeDecodeError) as problem:
            reason = getattr(problem, "strerror", None) or "it is not text"
            raise RegardError(f"--token-file {path} cannot be read: {reason.lower()}") from None
    token = found.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise RegardError(f"{where} holds no token: one word of ASCII letters, digits and signs is wanted")
    return token


def served_names(host: str, more: Sequence[str]) -> set[str]:
    """What a client may call this server."""
    own = {"localhost", "127.0.0.1", "::1", host.lower(), *(name.lower() for name in more)}
    return own | {socket.gethostname().lower()} if host in ("0.0.0.0", "::") else own


def say(sentence: str) -> None:
    print(f"regard: {sentence}", file=sys.stderr, flush=True)
