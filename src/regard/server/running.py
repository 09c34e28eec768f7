"""Listening, and stopping so that nothing which was accepted is lost."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import uvicorn

from regard.server.access import LARGEST_HEADERS
from regard.server.application import Application
from regard.server.connections import CHUNK, ConnectionLimits, connection_class

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
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008
    ) -> None:
        self.application, self.asked, self.listening = application, asked, listening
        limits = replace(limits, refused=application.watch.tell_refused)
        config = uvicorn.Config(
            application.watch,
            http=connection_class(limits),
            h11_max_incomplete_event_size=LARGEST_HEADERS + 2 * CHUNK,  # the connection's own limit comes first
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
        until = time.monotonic() + self.application.registry.seconds + LEFT_OVER
        while self.application.watch.open and time.monotonic() < until:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)
