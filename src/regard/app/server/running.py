"""Listening, and stopping so that nothing which was accepted is lost."""

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from regard.app.server.application import Application
from regard.errors import RegardError

KEPT_ALIVE = 30
"""Seconds a connection may be idle."""
LEFT_OVER = 2
"""Seconds connections have to end, after every request was answered."""


class Server(uvicorn.Server):
    """uvicorn, that asks whether to stop, and then answers all it accepted before it closes connections."""

    def __init__(
        self,
        application: Application,
        asked: Callable[[], object] = lambda: None,
        listening: Callable[[], object] = lambda: None,
    ) -> None:
        self.application, self.asked, self.listening = application, asked, listening
        config = uvicorn.Config(
            application.watch,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEPT_ALIVE,
            timeout_graceful_shutdown=LEFT_OVER,
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # whoever runs the server listens for signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening()

    async def on_tick(self, counter: int) -> bool:
        if self.asked() is not None:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Until the last accepted request is answered, new ones hear that the server stops; then it closes."""
        self.application.close()
        until = time.monotonic() + self.application.house.seconds + LEFT_OVER
        while self.application.watch.open and time.monotonic() < until:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)


def bound_socket(host: str, port: int) -> socket.socket:
    """The place to listen at; where there is none, one sentence says why."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise RegardError(f"--host {host}: there is no such address") from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as problem:
        listener.close()
        if problem.errno == errno.EADDRINUSE:
            raise RegardError(
                f"port {port} of {host} is taken; choose another with --port, or 0 for a free one"
            ) from None
        reason = (problem.strerror or str(problem)).lower()
        raise RegardError(f"port {port} of {host} cannot be listened at: {reason}") from None
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
