"""uvicorn with limits on connections, and a shutdown that answers every accepted request.

uvicorn closes a connection that is idle after a request (`timeout_keep_alive`), but keeps one open that sends
nothing or half of its headers, and its httptools parser accepts headers of any size. The limits here are on the
time and size of a request's headers, and on the number of open connections.
"""

import asyncio
import itertools
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.server.app import Application
from regard.server.middleware import HEADERS_TOO_LARGE, MAX_HEADER_BYTES, OVERLOADED, SECURITY_HEADERS
from regard.server.schemas import error_response

KEEP_ALIVE = 30
"""Seconds a connection may be idle."""
CLOSE_TIMEOUT = 2
"""Seconds for connections to close after every request was answered."""
REFUSED_TIMEOUT = 2.0
"""Seconds for a refused client to read the response: closing at once could lose it."""
READ_SIZE = 256 * 1024
"""Bytes that asyncio reads from a socket at a time."""
SEQUENCE = itertools.count()
"""Numbers connections and requests in the order of their last activity."""


class Server(uvicorn.Server):
    """uvicorn that answers all accepted requests before it closes connections.

    Args:
        application: The routes and middleware.
        stop_signal: Polled; anything but None stops the server.
        on_listening: Called once the server accepts connections.
        limits: Limits on connections.
    """

    def __init__(
        self,
        application: Application,
        stop_signal: Callable[[], object] = lambda: None,
        on_listening: Callable[[], object] = lambda: None,
        limits: "ConnectionLimits | None" = None,
    ) -> None:
        self.application, self.stop_signal, self.on_listening = application, stop_signal, on_listening
        limits = replace(limits or ConnectionLimits(), on_refused=application.log.record_incomplete)
        config = uvicorn.Config(
            application.log,
            http=connection_class(limits),
            h11_max_incomplete_event_size=MAX_HEADER_BYTES
            + 2 * READ_SIZE,  # LimitedConnection's limit is lower
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=CLOSE_TIMEOUT,
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are handled by the caller of `run`

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_listening()

    async def on_tick(self, counter: int) -> bool:
        if self.stop_signal() is not None:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new requests until the last accepted one is answered, then close."""
        self.application.close()
        deadline = time.monotonic() + self.application.registry.timeout + CLOSE_TIMEOUT
        while self.application.log.active and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits on the server's connections."""

    header_timeout: float = 10.0
    """Seconds for a request's headers to arrive: since the connection opened, or since the first byte after the
    last request."""
    max_connections: int = 500
    """Open at once. One more closes the connection that has been without a request for longest; if all are
    being answered, the new one gets a 503."""
    on_refused: Callable[[int], object] = lambda status: None
    """Called with the status of a request that is refused here, before it reaches the application."""


class LimitedConnection(asyncio.Protocol):
    """Mixin for uvicorn's protocol classes, which have no common base; one instance is one connection."""

    limits: ClassVar[ConnectionLimits]

    # attributes of uvicorn's protocols
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    flow: FlowControl
    connections: set[Any]
    app_state: dict[str, Any]
    cycle: Any
    """The last request whose headers are complete, or None."""

    timer: asyncio.TimerHandle | None = None
    header_bytes = 0
    """Bytes received since the last request, while headers are not complete."""
    last_active = 0
    """Sequence number of the opening or of the last request: the lowest has been without a request longest."""
    over_limit = False
    """Whether it was opened beyond the limit, to receive a 503."""
    discarding = False
    """Whether it was refused, and further input is dropped."""

    @property
    def reading_headers(self) -> bool:
        """Whether the next byte belongs to the headers of a request."""
        raise NotImplementedError

    @property
    def answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.last_active = next(SEQUENCE)
        self.start_timer(self.limits.header_timeout)
        if len(self.connections) > self.limits.max_connections:
            self.make_room()

    def make_room(self) -> None:
        """Close the connection that has been idle for longest; if all are being answered, refuse this one."""
        others = self.connections - {self}
        waiting = [other for other in others if not other.answering and not other.over_limit]
        if waiting:
            oldest = min(waiting, key=lambda other: other.last_active)
            self.connections.discard(oldest)  # uvicorn does so only in a later turn of the event loop
            oldest.transport.abort()
        elif len(others) >= 2 * self.limits.max_connections:
            self.transport.abort()
        else:
            self.over_limit, self.app_state = True, {**self.app_state, OVERLOADED: True}

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.discarding:
            return
        last_cycle = self.cycle
        if self.reading_headers:
            self.header_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.cycle is not last_cycle:  # the headers are complete
            self.stop_timer()
            self.header_bytes, self.last_active = 0, next(SEQUENCE)
        if self.answering:
            if self.header_bytes > MAX_HEADER_BYTES:
                self.flow.pause_reading()  # a pipelined request waits for the response, uvicorn resumes then
        elif self.header_bytes > MAX_HEADER_BYTES:
            self.refuse(431, HEADERS_TOO_LARGE)
        elif self.timer is None:
            self.start_timer(self.limits.header_timeout)

    def start_timer(self, seconds: float) -> None:
        self.stop_timer()
        self.timer = self.loop.call_later(seconds, self.timed_out)

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def timed_out(self) -> None:
        if self.discarding or self.transport.is_closing():  # a client that does not read would keep it open
            self.transport.abort()
        elif self.header_bytes and self.reading_headers:
            seconds = self.limits.header_timeout
            self.refuse(408, f"the headers of the request were not complete within {seconds:g} s")
        else:
            self.transport.close()

    def refuse(self, status: int, message: str) -> None:
        """Respond in place of the application, and close when the client has read it."""
        response = error_response(status, message, {"Connection": "close"})
        for name, value in SECURITY_HEADERS.items():
            response.headers[name] = value
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
        lines += [name + b": " + value for name, value in response.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.write_eof()
        self.discarding = True
        self.start_timer(REFUSED_TIMEOUT)
        self.limits.on_refused(status)


class H11Connection(LimitedConnection, H11Protocol):
    @property
    def reading_headers(self) -> bool:
        return self.conn.their_state is h11.IDLE


def httptools_connection() -> type[LimitedConnection]:
    """The connection class of uvicorn's httptools parser, an optional dependency.

    Raises:
        ImportError: httptools is not installed.
    """
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class HttptoolsConnection(LimitedConnection, HttpToolsProtocol):
        in_body = False
        """Whether a request's headers are complete and its body is not."""

        @property
        def reading_headers(self) -> bool:
            return not self.in_body

        def on_headers_complete(self) -> None:
            self.in_body = True
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self.in_body = False
            super().on_message_complete()

    return HttptoolsConnection


def connection_class(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn: httptools if it is installed, as uvicorn chooses, otherwise h11."""
    try:
        return with_limits(httptools_connection(), limits)
    except ImportError:
        return with_limits(H11Connection, limits)


def with_limits(base: type[LimitedConnection], limits: ConnectionLimits) -> type[LimitedConnection]:
    return type(base.__name__, (base,), {"limits": limits})
